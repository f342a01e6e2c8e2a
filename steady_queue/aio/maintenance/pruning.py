"""Pruning: ends the claims of dead processes, and deletes their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.maintenance.batch_splitting import REJECTED
from steady_queue.aio.maintenance.lost_claims import emit_settled
from steady_queue.aio.process_identity import is_gone
from steady_queue.errors import ProcessExitError, ProcessMissingError, ProcessPrunedError
from steady_queue.jobs.registry import limits_in_force
from steady_queue.jobs.running.retries import decide_lost
from steady_queue.store.operations.maintenance.set_aside import ClaimOwner
from steady_queue.store.operations.processes import prune
from steady_queue.store.operations.processes.lost_claims import SettledClaims
from steady_queue.store.outcome import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta
    from uuid import UUID

    from steady_queue.aio.maintenance.batch_splitting import ClaimSplitter, Driver
    from steady_queue.events import Events
    from steady_queue.store.operations.processes.prune import PrunedProcess, RegisteredProcess
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.statement import Operation

NONE_SETTLED = SettledClaims()


class Pruning:
    """Ends the claims of processes that are dead, or that have no row."""

    def __init__(
        self,
        *,
        process_id: UUID,
        driver: Driver,
        splitter: ClaimSplitter,
        wake_all: Callable[[], Awaitable[None]],
        events: Events,
    ) -> None:
        self._process_id = process_id
        self._driver = driver
        self._splitter = splitter
        self._wake_all = wake_all
        self._events = events

    async def prune_gone(self) -> None:
        """Prune at once the processes of this machine that certainly no longer exist.

        Not those whose supervisor is alive: it knows how they ended, and whether their tasks are to be released.
        """
        registered = await self._driver.run(prune.find_processes(self._driver.sql))
        gone = {process.id for process in registered if process.id != self._process_id and is_gone(process)}
        supervisors = {process.id for process in registered} - gone
        gone -= {process.id for process in registered if process.supervisor_id in supervisors}
        if gone:
            try:
                await self._prune(None, list(gone))
            finally:
                await self._wake_all()

    async def prune_silent(self, alive: timedelta) -> None:
        """Prune the processes without a heartbeat for longer than `alive`."""
        await self._prune(alive, None)

    async def end_orphans(self) -> None:
        """End claims whose process has no row."""
        error = report(ProcessMissingError, "the process that claimed the task is not registered")
        operation = prune.end_orphans(self._driver.sql, error, limits_in_force, decide_lost)
        try:
            while any(settled := await self._driver.run(operation)):
                self._emit_orphans(settled, error)
        except REJECTED:
            claims = await self._driver.run(prune.find_orphans(self._driver.sql))
            settled, rejection = await self._splitter.end_claims(ClaimOwner(prune.UNKNOWN_PROCESS), claims, error)
            self._emit_orphans(settled, error)
            if rejection is not None:
                raise rejection from None

    async def _prune(self, alive: timedelta | None, only: list[UUID] | None) -> None:
        try:
            while (pruned := await self._driver.run(self._prune_next(alive, only))) is not None:
                self._emit_pruned(pruned.process, pruned.settled, alive)
        except REJECTED:
            await self._prune_each(alive, only)

    async def _prune_each(self, alive: timedelta | None, only: list[UUID] | None) -> None:
        """Prune one process after another, their claims in parts: the database has rejected a claim."""
        left: list[Exception] = []
        for dead in await self._driver.run(
            prune.find_dead(self._driver.sql, me=self._process_id, alive=alive, only=only)
        ):
            why = _why(dead, alive)
            claims = await self._driver.run(prune.find_process_claims(self._driver.sql, dead.id))
            settled, rejection = await self._splitter.end_claims(ClaimOwner(dead.name, dead.id, alive), claims, why)
            emit_settled(self._events, settled, dead.id, why)
            try:
                pruned = await self._driver.run(self._prune_next(alive, [dead.id])) if rejection is None else None
            except REJECTED as error:
                rejection = error
            if rejection is not None:
                left.append(rejection)
            elif pruned is not None:
                self._emit_pruned(dead, pruned.settled, alive, settled)
        if left:
            raise left[-1]

    def _prune_next(self, alive: timedelta | None, only: list[UUID] | None) -> Operation[PrunedProcess | None]:
        return prune.prune_process(
            self._driver.sql,
            me=self._process_id,
            report=lambda process: _why(process, alive),
            alive=alive,
            only=only,
            limits=limits_in_force,
            decide=decide_lost,
        )

    def _emit_pruned(
        self,
        dead: RegisteredProcess,
        settled: SettledClaims,
        alive: timedelta | None,
        settled_before: SettledClaims = NONE_SETTLED,
    ) -> None:
        reason = "it no longer exists" if alive is None else "no heartbeat"
        total = settled_before + settled
        jobs, retried = len(total.failed) + len(total.cancelled), len(total.retried)
        self._events.emit(
            events.ProcessPruned(process_id=dead.id, name=dead.name, reason=reason, jobs=jobs, retried=retried)
        )
        emit_settled(self._events, settled, dead.id, _why(dead, alive))

    def _emit_orphans(self, settled: SettledClaims, error: ErrorReport) -> None:
        if settled.failed:
            self._events.emit(events.OrphansFailed(jobs=len(settled.failed)))
        emit_settled(self._events, settled, None, error)


def _why(process: RegisteredProcess, alive: timedelta | None) -> ErrorReport:
    if alive is None:
        return report(ProcessExitError, f"{process.name} no longer exists")
    return report(ProcessPrunedError, f"{process.name} was last alive at {process.last_heartbeat_at}")
