"""Unknown tasks: whether a job whose task this code does not have fails, or is left to a process with newer code.

While processes are replaced one after another, an older one may claim a job that only newer code can run. With
`on_unknown_task="release"` such a job is scheduled again, without a slot and without an attempt, while a process with
newer code is registered: one that started later, and that does not have the same `steady_queue.code_version`.

The settlers decide it, after the task has ended in its thread or in the loop, and before its outcome is written: the
claim stays known to its process meanwhile. The database is asked at most once in LOOKUP_SECONDS.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import steady_queue
from steady_queue.configuration import alive_threshold
from steady_queue.errors import StoreError, UnknownTaskError
from steady_queue.jobs.compat import InvalidTaskBackend, task_backends
from steady_queue.store.operations.processes.registration import find_later_processes
from steady_queue.store.outcome import Failed, Snoozed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim
    from steady_queue.store.operations.processes.registration import LaterProcess
    from steady_queue.store.outcome import Outcome

#: For how long an answer of the database is used.
LOOKUP_SECONDS = 2.0
#: A job waits as long as this part of its age before it is claimed again, with these limits.
SNOOZE_PER_AGE, MIN_SNOOZE_SECONDS, MAX_SNOOZE_SECONDS = 0.25, 1.0, 60.0
#: The delay of a job of which it is not known whether another process can run it: the database did not answer.
UNDECIDED_DELAY_SECONDS = 5.0
#: The delays of jobs that were released together differ by this part.
JITTER = 0.1

#: What a job fails with whose task, or whose backend, only newer code has.
_UNKNOWN = frozenset(f"{kind.__module__}.{kind.__qualname__}" for kind in (UnknownTaskError, InvalidTaskBackend))


class UnknownTasks:
    """Replaces the failures of unknown tasks, where the project wants that, by releases with a delay."""

    def __init__(self, *, process_id: UUID, driver: AsyncDriver, context: Context) -> None:
        self._process_id = process_id
        self._driver = driver
        self._clock = context.clock
        self._newer: LaterProcess | None = None
        self._looked_up_at: float | None = None

    async def decide(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Return the outcomes, with those of unknown tasks that are left to newer code replaced."""
        if not any(map(is_releasable, outcomes)):
            return outcomes
        try:
            newer = await self._find_newer()
        except StoreError as error:
            # In doubt, the job must not fail: that could not be undone without a human.
            reason = f"its task is not known here, and it is not known whether newer code runs elsewhere: {error}"
            return _replace(outcomes, UNDECIDED_DELAY_SECONDS, reason)
        if newer is None:
            return outcomes
        return _replace(outcomes, None, f"its task is not known here; {newer.name} may have newer code")

    async def _find_newer(self) -> LaterProcess | None:
        now = self._clock.monotonic()
        if self._looked_up_at is None or now - self._looked_up_at >= LOOKUP_SECONDS:
            alive_seconds = alive_threshold().total_seconds()
            found = await self._driver.run(find_later_processes(self._driver.sql, self._process_id, alive_seconds))
            self._newer = next((process for process in found if has_newer_code(process)), None)
            self._looked_up_at = now
        return self._newer


def has_newer_code(process: LaterProcess) -> bool:
    """Whether a process that started later may have other code than this one.

    If the version of either is not known, a process counts if it runs tasks. So among processes without versions the
    worker that started last fails the job, and no job waits for ever for a process that never claims any.
    """
    try:
        metadata = dict(json.loads(process.metadata))
    except (ValueError, TypeError):
        metadata = {}
    version, own = metadata.get("code_version"), steady_queue.code_version
    if version is not None and own is not None:
        return bool(version != own)
    return _runs_tasks(metadata.get("actors"))


def _runs_tasks(actors: object) -> bool:
    return isinstance(actors, list) and any(isinstance(one, dict) and one.get("kind") == "worker" for one in actors)


def is_releasable(outcome: Outcome) -> bool:
    """Whether a job failed because its task or its backend is unknown, and not because its task raised that error."""
    return (
        type(outcome) is Failed
        and not outcome.is_loadable
        and outcome.error.exception_class in _UNKNOWN
        and _wants_release(outcome.claim.backend)
    )


def _wants_release(alias: str) -> bool:
    """Whether the backend of a job says so; any backend, if newer code has added the one of the job."""
    settings = task_backends.settings
    entries: Iterable[Any] = [settings[alias]] if alias in settings else settings.values()
    options = [entry.get("OPTIONS") for entry in entries]
    return any(isinstance(one, dict) and one.get("on_unknown_task") == "release" for one in options)


def _replace(outcomes: Sequence[Outcome], delay_seconds: float | None, reason: str) -> list[Outcome]:
    return [
        Snoozed(outcome.claim, snooze_seconds_of(outcome.claim) if delay_seconds is None else delay_seconds, reason)
        if is_releasable(outcome)
        else outcome
        for outcome in outcomes
    ]


def snooze_seconds_of(claim: Claim) -> float:
    """How long a job that is left to newer code waits: longer the older it is, so nothing has to be stored."""
    age_seconds = (claim.claimed_at - claim.enqueued_at).total_seconds()
    delay_seconds = min(max(age_seconds * SNOOZE_PER_AGE, MIN_SNOOZE_SECONDS), MAX_SNOOZE_SECONDS)
    return delay_seconds * random.uniform(1 - JITTER, 1 + JITTER)
