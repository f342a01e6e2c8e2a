"""Reconciliation: compares the claims of this process in the database with the claims that the process knows.

A claim that the process does not know is released: the reply of its claim statement was lost. A claim that the process
runs and the database no longer has is lost: maintenance of another process ended it, or an action did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from steady_queue import events
from steady_queue.store.operations.maintenance.set_aside import ClaimOwner
from steady_queue.store.operations.processes import prune

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from steady_queue.aio.maintenance.batch_splitting import ClaimSplitter
    from steady_queue.aio.maintenance.steps import StepDriver
    from steady_queue.aio.worker.claims import Claims
    from steady_queue.events import Events
    from steady_queue.store.operations.processes.registration import NewProcess


class OnLost(Protocol):
    """Called with the claims that this process has lost, and whether it was pruned."""

    def __call__(self, claims: set[UUID], /, *, is_pruned: bool) -> None: ...


class Reconciliation:
    """Done in every turn of maintenance, after a claim whose reply may be lost, and after this process was pruned."""

    def __init__(
        self,
        *,
        process: NewProcess,
        claims: Claims,
        driver: StepDriver,
        splitter: ClaimSplitter,
        on_lost: OnLost,
        wake_all: Callable[[], Awaitable[None]],
        events: Events,
    ) -> None:
        self._process = process
        self._claims = claims
        self._driver = driver
        self._splitter = splitter
        self._on_lost = on_lost
        self._wake_all = wake_all
        self._events = events

    async def reconcile(self) -> None:
        """Release the claims that this process does not know, and stop the tasks whose claims are lost."""
        await self._reconcile(is_pruned=False)

    async def reconcile_after_prune(self) -> None:
        """The same, after maintenance of another process has pruned this one."""
        await self._reconcile(is_pruned=True)

    async def _reconcile(self, *, is_pruned: bool) -> None:
        owner = ClaimOwner(self._process.name, self._process.id)
        # Not while a claim statement is in flight: the reply with its claims may still come.
        async with self._claims.lock:
            known, running = self._claims.known(), self._claims.running()
            stored = await self._driver.run(prune.find_process_claims(self._driver.sql, self._process.id))
            unknown = {claim_id: job_id for claim_id, job_id in stored.items() if claim_id not in known}
            count, rejection = await self._splitter.release_claims(owner, unknown) if unknown else (0, None)
        # A task that ran before and still runs was not settled by this process.
        if lost := (running & self._claims.running()) - stored.keys():
            self._on_lost(lost, is_pruned=is_pruned)
        if count:
            self._events.emit(events.ClaimsReconciled(process_id=self._process.id, count=count))
            await self._wake_all()
        if rejection is not None:
            raise rejection
