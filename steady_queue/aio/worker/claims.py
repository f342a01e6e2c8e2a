"""Claims: the claims that this process holds, and whether it may make more.

A claim is running from its start until its task has ended, and known until its outcome is written.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.aio.lease import Lease
    from steady_queue.aio.worker.capacity import Capacity
    from steady_queue.aio.worker.running import Running
    from steady_queue.aio.worker.settler import Settlers


class Claims:
    """The claims of all workers of a process."""

    def __init__(self, *, lease: Lease, capacities: Sequence[Capacity], settlers: Settlers) -> None:
        self.lease = lease
        self._capacities = capacities
        self._settlers = settlers
        #: Held while a claim statement is in flight: its reply may bring claims that this process does not know yet.
        self.lock = asyncio.Lock()

    def may_claim(self) -> bool:
        """Return whether this process may claim more jobs."""
        return self.lease.is_held and not self._settlers.are_full()

    def known(self) -> set[UUID]:
        """Return every claim that this process knows: running, waiting to be settled, being settled."""
        return self._settlers.claims() | {running.claim.claim_id for running in self.running_jobs()}

    def running(self) -> set[UUID]:
        """Return the claims whose tasks run now, without those of tasks that settle or have settled themselves."""
        return {running.claim.claim_id for running in self.running_jobs() if not running.is_completing}

    def running_jobs(self) -> list[Running]:
        # Each copied in one step: the watchdog calls this from its own thread.
        return [running for capacity in self._capacities for running in list(capacity.running.values())]

    def name_of(self, task: asyncio.Task[object] | None) -> str:
        """Return the name of a running asyncio task, with its job if it has one. May be called from any thread."""
        for running in self.running_jobs():
            if running.task is task:
                return f"{running.claim.task_path} ({running.claim.job_id})"
        return task.get_name() if task is not None else "a callback"

    def restartable(self) -> set[UUID]:
        """Return the unfinished claims whose tasks may run again: see `Capacity.restartable`."""
        return {claim_id for capacity in self._capacities for claim_id in capacity.restartable()}

    def unfinished(self) -> set[UUID]:
        """Return the running claims whose tasks have certainly not ended. May be called from any thread."""
        return {claim_id for capacity in self._capacities for claim_id in capacity.unfinished()}
