"""Pruning: fails the claims of dead processes, and deletes their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.maintenance.batch_splitting import REJECTED
from steady_queue.aio.process_identity import is_gone
from steady_queue.errors import ProcessExitError, ProcessMissingError, ProcessPrunedError
from steady_queue.jobs.registry import limits_in_force
from steady_queue.store.operations import prune
from steady_queue.store.operations.set_aside import ClaimOwner
from steady_queue.store.outcome import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta
    from uuid import UUID

    from steady_queue.aio.maintenance.batch_splitting import ClaimSplitter, Driver
    from steady_queue.events import Events
    from steady_queue.store.operations.prune import PrunedProcess, RegisteredProcess
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.statement import Operation


class Pruning:
    """Fails the claims of processes that are dead, or that have no row."""

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

    async def fail_orphans(self) -> None:
        """Fail claims whose process has no row."""
        error = report(ProcessMissingError, "the process that claimed the task is not registered")
        try:
            while jobs := await self._driver.run(prune.fail_orphans(self._driver.sql, error, limits_in_force)):
                self._emit_orphans(jobs, error)
        except REJECTED:
            claims = await self._driver.run(prune.find_orphans(self._driver.sql))
            settled, rejection = await self._splitter.end_claims(ClaimOwner("unknown"), claims, error)
            self._emit_orphans(settled.failed, error)
            if rejection is not None:
                raise rejection from None

    async def _prune(self, alive: timedelta | None, only: list[UUID] | None) -> None:
        try:
            while (pruned := await self._driver.run(self._prune_next(alive, only))) is not None:
                self._emit_pruned(pruned.process, pruned.jobs, alive)
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
            self._emit_failed(dead.id, settled.failed, why)
            try:
                pruned = await self._driver.run(self._prune_next(alive, [dead.id])) if rejection is None else None
            except REJECTED as error:
                rejection = error
            if rejection is not None:
                left.append(rejection)
            elif pruned is not None:
                self._emit_pruned(dead, pruned.jobs, alive, len(settled.failed))
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
        )

    def _emit_pruned(
        self, dead: RegisteredProcess, jobs: Sequence[UUID], alive: timedelta | None, already_failed: int = 0
    ) -> None:
        reason, count = "it no longer exists" if alive is None else "no heartbeat", already_failed + len(jobs)
        self._events.emit(events.ProcessPruned(process_id=dead.id, name=dead.name, reason=reason, jobs=count))
        self._emit_failed(dead.id, jobs, _why(dead, alive))

    def _emit_orphans(self, jobs: Sequence[UUID], error: ErrorReport) -> None:
        if jobs:
            self._events.emit(events.OrphansFailed(jobs=len(jobs)))
            self._emit_failed(None, jobs, error)

    def _emit_failed(self, process_id: UUID | None, jobs: Sequence[UUID], error: ErrorReport) -> None:
        if jobs:
            self._events.emit(
                events.JobsFailed(process_id=process_id, job_ids=jobs, count=len(jobs), error=error.message)
            )


def _why(process: RegisteredProcess, alive: timedelta | None) -> ErrorReport:
    if alive is None:
        return report(ProcessExitError, f"{process.name} no longer exists")
    return report(ProcessPrunedError, f"{process.name} was last alive at {process.last_heartbeat_at}")
