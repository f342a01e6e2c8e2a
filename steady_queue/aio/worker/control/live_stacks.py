"""LiveStacks: where a task of this process is at this moment, for a person who asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.aio.worker.control.stacks import stack_of
from steady_queue.events.tracebacks import cut

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from steady_queue.aio.worker.claims import Claims

#: Bounds of a stack.
MAX_FRAMES, MAX_BYTES = 100, 64 * 1024
NOT_BEGUN = "The task has not begun: it waits for a free thread."


class LiveStack(NamedTuple):
    """The stack of a task as lines of text, without local variables, and when the task was claimed."""

    lines: list[str]
    claimed_at: datetime


class LiveStacks:
    """The stacks of the tasks that all workers of a process run."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    async def read(self, job_id: UUID) -> LiveStack | None:
        """Return the stack of a job; None if it does not run in this process, or not any more."""
        # The job may be in the reply of a claim that is in flight.
        async with self._claims.lock:
            pass
        running = next((job for job in self._claims.running_jobs() if job.claim.job_id == job_id), None)
        if running is None:
            return None
        text = stack_of(running, max_frames=MAX_FRAMES, length=MAX_BYTES)
        # Only now: a thread that has ended this task meanwhile may run another one.
        if running.claim.claim_id not in self._claims.unfinished():
            return None
        return LiveStack(_bound(text).splitlines() or [NOT_BEGUN], running.claim.claimed_at)


def _bound(text: str) -> str:
    """Return text that can be stored, in no more than MAX_BYTES; a character has at most 4 bytes."""
    encoded = text.encode(errors="backslashreplace")
    return cut(encoded.decode(), MAX_BYTES // 4 - 100 if len(encoded) > MAX_BYTES else MAX_BYTES)
