"""Pruning: what dead processes have left behind fails, and their rows go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.identity import is_gone
from steady_queue.aio.maintenance.splitting import REFUSED
from steady_queue.errors import ProcessExitError, ProcessMissingError, ProcessPrunedError
from steady_queue.jobs.registry import limits_in_force
from steady_queue.store.operations import prune
from steady_queue.store.operations.set_aside import ClaimOwner
from steady_queue.store.outcome import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta
    from uuid import UUID

    from steady_queue.aio.maintenance.splitting import ClaimSplitter, Run
    from steady_queue.events import Events
    from steady_queue.store.operations.prune import PrunedProcess, RegisteredProcess
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation


class Pruning:
    """Fails the claims of processes that are dead, or that have no row."""

    def __init__(
        self,
        *,
        process_id: UUID,
        run: Run,
        sql: Dialect,
        splitter: ClaimSplitter,
        made_ready: Callable[[], Awaitable[None]],
        events: Events,
    ) -> None:
        self._process_id = process_id
        self._run = run
        self._sql = sql
        self._splitter = splitter
        self._made_ready = made_ready
        self._events = events

    async def prune_gone(self) -> None:
        """Prune at once the processes of this machine that certainly no longer exist.

        Not those of a supervisor that lives: it knows how they ended, and whether their tasks are to be released.
        """
        registered = await self._run(prune.find_processes(self._sql))
        gone = {process.id for process in registered if process.id != self._process_id and is_gone(process)}
        supervisors = {process.id for process in registered} - gone
        gone -= {process.id for process in registered if process.supervisor_id in supervisors}
        if gone:
            try:
                await self._prune(None, list(gone))
            finally:
                await self._made_ready()

    async def prune_silent(self, alive: timedelta) -> None:
        """Prune the processes that have not beaten within that time."""
        await self._prune(alive, None)

    async def fail_orphans(self) -> None:
        """Fail claims whose process has no row."""
        error = report(ProcessMissingError, "the process that claimed the task is not registered")
        try:
            while jobs := await self._run(prune.fail_orphans(self._sql, error, limits_in_force)):
                self._emit_orphans(jobs, error)
        except REFUSED:
            claims = await self._run(prune.find_orphans(self._sql))
            fates, refusal = await self._splitter.end_claims(ClaimOwner("unknown"), claims, error)
            self._emit_orphans(fates.failed, error)
            if refusal is not None:
                raise refusal from None

    async def _prune(self, alive: timedelta | None, only: list[UUID] | None) -> None:
        try:
            while (buried := await self._run(self._bury(alive, only))) is not None:
                self._emit_pruned(buried.process, buried.jobs, alive)
        except REFUSED:
            await self._prune_each(alive, only)

    async def _prune_each(self, alive: timedelta | None, only: list[UUID] | None) -> None:
        """The same for one process after another, their claims in parts: some claim of some process was refused."""
        left: list[Exception] = []
        for dead in await self._run(prune.find_dead(self._sql, me=self._process_id, alive=alive, only=only)):
            why = _why(dead, alive)
            claims = await self._run(prune.find_process_claims(self._sql, dead.id))
            fates, refusal = await self._splitter.end_claims(ClaimOwner(dead.name, dead.id, alive), claims, why)
            self._emit_failed(dead.id, fates.failed, why)
            try:
                buried = await self._run(self._bury(alive, [dead.id])) if refusal is None else None
            except REFUSED as error:
                refusal = error
            if refusal is not None:
                left.append(refusal)
            elif buried is not None:
                self._emit_pruned(dead, buried.jobs, alive, len(fates.failed))
        if left:
            raise left[-1]

    def _bury(self, alive: timedelta | None, only: list[UUID] | None) -> Operation[PrunedProcess | None]:
        return prune.prune_process(
            self._sql,
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
