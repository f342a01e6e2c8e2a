"""Maintenance: every few seconds, in every process, repairs what processes that died have left, and deletes old jobs.

A turn begins with one statement that finds out which steps are needed; each step after it is a short transaction of its
own, is done by one process at a time, and fails alone. All times are the database's.
"""

from __future__ import annotations

import asyncio
import math
import random
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import steady_queue
from steady_queue import events
from steady_queue.aio.maintenance.batch_splitting import REJECTED
from steady_queue.aio.maintenance.cleanup import FAILED, FINISHED, Clearing
from steady_queue.aio.maintenance.promotion import promote_stranded
from steady_queue.aio.maintenance.pruning import Pruning
from steady_queue.aio.maintenance.statistics_folding import StatisticsFolding
from steady_queue.aio.maintenance.steps import StepRunner, StepSkipped
from steady_queue.aio.maintenance.unserved_queues import warn_of_unserved
from steady_queue.configuration import alive_threshold
from steady_queue.jobs.registry import durations_in_force, limits_in_force
from steady_queue.store.operations.actions.cancellation import resolve_requests
from steady_queue.store.operations.maintenance import steps as store
from steady_queue.store.operations.maintenance.steps import release_overrun_slots
from steady_queue.store.operations.maintenance.sweeps import sweep_expired, sweep_unique_keys
from steady_queue.store.operations.processes.requests import delete_old_requests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from steady_queue.aio.context import Context
    from steady_queue.aio.maintenance.batch_splitting import ClaimSplitter
    from steady_queue.aio.maintenance.claim_reconciliation import Reconciliation
    from steady_queue.aio.maintenance.cleanup import Kind
    from steady_queue.aio.maintenance.steps import StepDriver
    from steady_queue.configuration import Dispatcher
    from steady_queue.store.operations.processes.registration import NewProcess
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: Between turns, before jitter.
INTERVAL_SECONDS = 5.0
#: Turns between two checks for queues that no process serves.
UNSERVED_CHECK_TURNS = 12
#: Batches of expired jobs in one turn.
EXPIRY_BATCHES = 20
#: The work of a turn whose first statement has failed: every step is tried.
ALL_WORK = store.Work(*[True] * len(store.Work._fields))


class Maintenance:
    """Prunes dead processes, fails orphaned claims, frees lost slots, promotes stranded jobs, clears old ones."""

    name = "maintenance"

    def __init__(
        self,
        *,
        process: NewProcess,
        reconciliation: Reconciliation,
        driver: StepDriver,
        splitter: ClaimSplitter,
        may_prune: Callable[[], bool],
        on_request: Callable[[], None],
        wake_all: Callable[[], Awaitable[None]],
        promotes: bool,
        max_interval_seconds: float,
        context: Context,
    ) -> None:
        self._reconciliation = reconciliation
        self._driver = driver
        self._splitter = splitter
        self._may_prune = may_prune
        self._on_request = on_request
        self._asked = [id_ for id_ in (process.id, process.supervisor_id) if id_ is not None]
        self._wake_all = wake_all
        self._promotes = promotes
        self._interval_seconds = min(INTERVAL_SECONDS, max_interval_seconds)
        self._events = context.events
        self._outage = context.outage
        self._turns = 0
        self._last_key = ""
        self._pruning = Pruning(
            process_id=process.id, driver=driver, splitter=splitter, wake_all=wake_all, events=self._events
        )
        self._clearing_finished = self._build_clearing(FINISHED)
        self._clearing_failed = self._build_clearing(FAILED)
        self._statistics = StatisticsFolding(driver)
        self._steps = StepRunner(process_id=process.id, metadata=process.metadata, driver=driver, context=context)

    async def run(self) -> None:
        await self._try(self.prune_gone)
        while True:
            # An interval that was configured is an upper bound, with jitter too.
            longest = 1.0 if self._interval_seconds < INTERVAL_SECONDS else 1.2
            await asyncio.sleep(self._interval_seconds * random.uniform(0.8, longest))
            await self._try(self.turn)

    async def _try(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except Exception as error:
            await self._outage.wait(self.name, error)
        else:
            self._outage.succeeded(self.name)

    async def turn(self) -> None:
        """Find out which steps are needed, and do those."""
        await self._steps.run("reconciling claims", self._reconciliation.reconcile)
        await self.prune_gone()
        alive = alive_threshold()
        keep = steady_queue.clear_finished_jobs_after if steady_queue.preserve_finished_jobs else timedelta(0)
        keep_failed = steady_queue.clear_failed_jobs_after
        keep_hours = steady_queue.statistics_retention
        look = store.find_work(
            self._driver.sql,
            alive=alive,
            keep=keep,
            keep_failed=keep_failed,
            keep_hours=keep_hours,
            asked=self._asked,
        )
        work = await self._steps.run("looking for work", partial(self._driver.run, look)) or ALL_WORK
        if work.own_requests:
            self._on_request()
        due: list[tuple[str, bool, Callable[[], Awaitable[int | None]]]] = [
            ("pruning", work.dead, partial(self._prune_silent, alive)),
            ("failing orphans", work.orphans, self._pruning.end_orphans),
            ("freeing ownerless slots", work.ownerless, self._free_ownerless),
            ("freeing overrun slots", work.overrun, self._free_overrun),
            ("ending expired tasks", work.expired, self._end_expired),
            ("cancelling tasks", work.requests, self._resolve_requests),
            ("deleting unique keys", work.keys, self._delete_needless_keys),
            ("deleting old requests", work.old_requests, self._delete_old_requests),
            ("promoting blocked tasks", work.blocked and self._promotes, self._promote),
            ("clearing finished tasks", work.old, partial(self._clear, self._clearing_finished, keep)),
            ("clearing failed tasks", work.old_failed, partial(self._clear, self._clearing_failed, keep_failed)),
            ("folding statistics", work.minutes, self._statistics.fold),
            ("clearing statistics", work.old_hours, partial(self._statistics.clear, keep_hours)),
        ]
        has_made_ready = work.dead or work.orphans or work.ownerless
        for name, is_due, step in due:
            if is_due:
                has_made_ready = bool(await self._steps.run(name, step)) or has_made_ready
            else:
                await self._steps.succeeded(name)
        if has_made_ready:
            await self._wake_all()
        self._turns += 1
        if self._turns % UNSERVED_CHECK_TURNS == 1:
            await self._steps.run("looking for tasks that no process serves", self.warn_of_unserved)

    async def warn_of_unserved(self) -> None:
        await warn_of_unserved(self._driver, self._events)

    async def _prune_silent(self, alive: timedelta) -> None:
        if not self._may_prune():
            raise StepSkipped
        await self._pruning.prune_silent(alive)

    async def prune_gone(self) -> None:
        """Prune the processes of this machine that certainly no longer exist: at the start and in every turn."""
        await self._steps.run("pruning processes of this machine", self._pruning.prune_gone)

    async def _free_ownerless(self) -> int:
        def operation(promoting: bool) -> Operation[int]:
            return store.free_ownerless(
                self._driver.sql,
                after=steady_queue.default_concurrency_control_period,
                durations=durations_in_force,
                limits=limits_in_force,
                promoting=promoting,
            )

        if count := await self._promoting_if_possible(operation):
            self._events.emit(events.SlotsRepaired(count=count))
        return count

    async def _free_overrun(self) -> int:
        overran = await self._promoting_if_possible(
            lambda promoting: release_overrun_slots(self._driver.sql, limits_in_force, promoting=promoting)
        )
        for job_id, path, key in overran:
            self._events.emit(events.JobOverran(job_id=job_id, task_path=path, concurrency_key=key))
        return len(overran)

    async def _end_expired(self) -> int:
        promoted = 0
        for _ in range(EXPIRY_BATCHES):
            swept = await self._promoting_if_possible(
                lambda promoting: sweep_expired(self._driver.sql, limits_in_force, promoting=promoting)
            )
            promoted += swept.promoted
            if swept.expired:
                self._events.emit(events.JobsExpired(job_ids=swept.expired, count=len(swept.expired)))
            if not swept.is_more_left:
                break
        return promoted

    async def _resolve_requests(self) -> int:
        resolved = await self._promoting_if_possible(
            lambda promoting: resolve_requests(self._driver.sql, limits_in_force, promoting=promoting)
        )
        for request, ids in resolved.ended.items():
            self._events.emit(events.JobsCancelled(job_ids=ids, count=len(ids), by=request.by, reason=request.reason))
        return len(resolved.ended)

    async def _delete_needless_keys(self) -> None:
        """One part of the table in each turn: a key that no job needs is also taken over when a task is enqueued."""
        _, last = await self._driver.run(sweep_unique_keys(self._driver.sql, self._last_key))
        self._last_key = last or ""

    async def _delete_old_requests(self) -> None:
        await self._driver.run(delete_old_requests(self._driver.sql))

    async def _promoting_if_possible(self, operation: Callable[[bool], Operation[T]]) -> T:
        """Run the operation with promotion; if a blocked job is rejected, free the slots without promotion.

        The promotion step sets that job aside.
        """
        try:
            return await self._driver.run(operation(True))
        except REJECTED:
            return await self._driver.run(operation(False))

    async def _promote(self) -> int:
        total, rejection = await promote_stranded(self._driver, self._splitter)
        if total:
            self._events.emit(events.JobsPromoted(by="maintenance", count=total))
        if rejection is not None:
            if total:
                await self._wake_all()
            raise rejection
        return total

    def _build_clearing(self, kind: Kind) -> Clearing:
        def on_cleared(count: int) -> None:
            self._events.emit(events.JobsCleared(count=count, status=kind.name))

        return Clearing(kind, driver=self._driver, on_cleared=on_cleared)

    async def _clear(self, clearing: Clearing, keep: timedelta | None) -> None:
        if keep is not None and not await clearing.clear(keep):
            raise StepSkipped


def longest_pause_seconds(dispatchers: Iterable[Dispatcher]) -> float:
    """Return the longest time between two turns that the options of all dispatchers allow."""
    intervals = [each.concurrency_maintenance_interval for each in dispatchers if each.concurrency_maintenance]
    return min([interval.total_seconds() for interval in intervals], default=math.inf)
