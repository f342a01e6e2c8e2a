"""Maintenance: every few seconds, in every process, what keeps the queue whole when others die.

A turn begins with one statement that tells whether there is anything to do; each step after it is a short transaction
of its own, done by one process at a time, and fails alone. All times are the database's.
"""

from __future__ import annotations

import asyncio
import json
import random
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import steady_queue
from steady_queue import events
from steady_queue.aio.maintenance.clearing import FAILED, FINISHED, Clearing
from steady_queue.aio.maintenance.promotion import promote_stranded
from steady_queue.aio.maintenance.pruning import Pruning
from steady_queue.aio.maintenance.splitting import REFUSED, ClaimSplitter
from steady_queue.aio.maintenance.steps import Steps, StepSkipped
from steady_queue.aio.worker.queues import expand
from steady_queue.configuration import alive_threshold
from steady_queue.errors import StoreUnavailable
from steady_queue.jobs.registry import durations_in_force, limits_in_force
from steady_queue.store.job import SERVED_LANES, Lane
from steady_queue.store.operations import maintenance as store
from steady_queue.store.operations import prune
from steady_queue.store.operations.maintenance import release_overrun_slots
from steady_queue.store.operations.set_aside import ClaimOwner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from uuid import UUID

    from steady_queue.aio.maintenance.clearing import Kind
    from steady_queue.aio.outage import Outage
    from steady_queue.aio.timing import Clock
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.processes import NewProcess
    from steady_queue.store.operations.prune import RegisteredProcess
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: Seconds between turns, before jitter; a step may take so long.
INTERVAL = 5.0
DEADLINE = 10.0
#: Turns between two looks for queues that nobody serves.
LOOK_AROUND = 12
#: The work of a turn whose look has failed: every step is tried.
ANYTHING = store.Work(*[True] * len(store.Work._fields))


class Maintenance:
    """Prunes dead processes, fails orphaned claims, frees lost slots, promotes stranded jobs, clears old ones."""

    name = "maintenance"

    def __init__(
        self,
        *,
        process: NewProcess,
        driver: AsyncDriver,
        may_bury: Callable[[], bool],
        known_claims: Callable[[], set[UUID]],
        running_claims: Callable[[], set[UUID]],
        taken: Callable[[set[UUID], bool], None],
        claiming: asyncio.Lock,
        made_ready: Callable[[], Awaitable[None]],
        promotes: bool,
        at_most: float,
        clock: Clock,
        events: Events,
        outage: Outage,
    ) -> None:
        self._process = process
        self._driver = driver
        self._may_bury = may_bury
        self._known_claims = known_claims
        self._running_claims = running_claims
        self._taken = taken
        self._claiming = claiming
        self._made_ready = made_ready
        self._promotes = promotes
        #: What is asked for is an upper bound; so is the jitter's.
        self._interval = min(INTERVAL, at_most)
        self._events = events
        self._outage = outage
        self._turns = 0
        self._splitter = ClaimSplitter(run=self._run, sql=self._sql, events=events)
        self._pruning = Pruning(
            process_id=process.id,
            run=self._run,
            sql=self._sql,
            splitter=self._splitter,
            made_ready=made_ready,
            events=events,
        )
        self._clearing_finished = self._clearing(FINISHED)
        self._clearing_failed = self._clearing(FAILED)
        self._steps = Steps(process_id=process.id, metadata=process.metadata, driver=driver, clock=clock, events=events)

    async def run(self) -> None:
        await self._survive(self.prune_gone)
        while True:
            await asyncio.sleep(self._interval * random.uniform(0.8, 1.0 if self._interval < INTERVAL else 1.2))
            await self._survive(self.turn)

    async def _survive(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except Exception as error:
            await self._outage.wait(self.name, error)
        else:
            self._outage.over(self.name)

    async def turn(self) -> None:
        """One turn: look, then only what is needed."""
        await self._steps.run("reconciling claims", self.reconcile)
        await self.prune_gone()
        alive = alive_threshold()
        keep = steady_queue.clear_finished_jobs_after if steady_queue.preserve_finished_jobs else timedelta(0)
        keep_failed = steady_queue.clear_failed_jobs_after
        look = store.find_work(self._sql, alive=alive, keep=keep, keep_failed=keep_failed)
        work = await self._steps.run("looking for work", partial(self._run, look)) or ANYTHING
        due: list[tuple[str, bool, Callable[[], Awaitable[int | None]]]] = [
            ("pruning", work.dead, partial(self._prune_silent, alive)),
            ("failing orphans", work.orphans, self._pruning.fail_orphans),
            ("freeing ownerless slots", work.ownerless, self._free_ownerless),
            ("freeing overrun slots", work.overrun, self._let_go),
            ("promoting blocked tasks", work.blocked and self._promotes, self._promote),
            ("clearing finished tasks", work.old, partial(self._clear, self._clearing_finished, keep)),
            ("clearing failed tasks", work.old_failed, partial(self._clear, self._clearing_failed, keep_failed)),
        ]
        has_made_ready = work.dead or work.orphans or work.ownerless
        for name, is_due, step in due:
            if is_due:
                has_made_ready = bool(await self._steps.run(name, step)) or has_made_ready
            else:
                await self._steps.succeeded(name)
        if has_made_ready:
            await self._made_ready()
        self._turns += 1
        if self._turns % LOOK_AROUND == 1:
            await self._steps.run("looking for tasks that nobody serves", self.look_around)

    async def _prune_silent(self, alive: timedelta) -> None:
        if not self._may_bury():
            raise StepSkipped
        await self._pruning.prune_silent(alive)

    async def prune_gone(self) -> None:
        """Prune, at the start and in every turn, the processes of this machine that certainly no longer exist."""
        await self._steps.run("pruning processes of this machine", self._pruning.prune_gone)

    async def reconcile(self, *, buried: bool = False) -> None:
        """Compare our claims in the database with what we know: give back the unknown, tell which were taken from us.

        Only while no claim is on its way: its reply may still come. `buried`: others took this process for dead.
        """
        me = ClaimOwner(self._process.name, self._process.id)
        async with self._claiming:
            known, running = self._known_claims(), self._running_claims()
            claims = await self._run(prune.find_process_claims(self._sql, self._process.id))
            unknown = {claim_id: job_id for claim_id, job_id in claims.items() if claim_id not in known}
            count, refusal = await self._splitter.release_claims(me, unknown) if unknown else (0, None)
        # What ran before and still runs has not been settled by us.
        if taken := (running & self._running_claims()) - claims.keys():
            self._taken(taken, buried)
        if count:
            self._events.emit(events.ClaimsReconciled(process_id=self._process.id, count=count))
            await self._made_ready()
        if refusal is not None:
            raise refusal

    async def _free_ownerless(self) -> int:
        def operation(promoting: bool) -> Operation[int]:
            return store.free_ownerless(
                self._sql,
                after=steady_queue.default_concurrency_control_period,
                durations=durations_in_force,
                limits=limits_in_force,
                promoting=promoting,
            )

        if count := await self._promoting_if_possible(operation):
            self._events.emit(events.SlotsRepaired(count=count))
        return count

    async def _let_go(self) -> int:
        overran = await self._promoting_if_possible(
            lambda promoting: release_overrun_slots(self._sql, limits_in_force, promoting=promoting)
        )
        for job_id, path, key in overran:
            self._events.emit(events.JobOverran(job_id=job_id, task_path=path, concurrency_key=key))
        return len(overran)

    async def _promoting_if_possible(self, operation: Callable[[bool], Operation[T]]) -> T:
        """Run with promotion; if a blocked job is refused, free the slots without it.

        The promotion step sets that job aside.
        """
        try:
            return await self._run(operation(True))
        except REFUSED:
            return await self._run(operation(False))

    async def _promote(self) -> int:
        total, refusal = await promote_stranded(self._run, self._sql, self._splitter)
        if total:
            self._events.emit(events.JobsPromoted(by="maintenance", count=total))
        if refusal is not None:
            if total:
                await self._made_ready()
            raise refusal
        return total

    def _clearing(self, kind: Kind) -> Clearing:
        def on_cleared(count: int) -> None:
            self._events.emit(events.JobsCleared(count=count, status=kind.name))

        return Clearing(kind, run=self._run, sql=self._sql, on_cleared=on_cleared)

    async def _clear(self, clearing: Clearing, keep: timedelta | None) -> None:
        if keep is not None and not await clearing.clear(keep):
            raise StepSkipped

    async def look_around(self) -> None:
        """Warn of ready jobs in queues or lanes that no live process serves, or no process of this version could."""
        waiting = await self._run(store.find_waiting_lanes(self._sql))
        if not waiting:
            return
        processes = await self._run(prune.find_processes(self._sql))
        unserved: list[str] = []
        for queue, lane in waiting:
            # Not failed: in the middle of a deployment it may belong to the next version, whose processes will run it.
            if lane not in SERVED_LANES:
                self._events.emit(events.UnknownLane(queue_name=queue, lane=lane))
            elif not _is_served(queue, Lane(lane), processes):
                unserved.append(f"{queue} ({Lane(lane).name.lower()})")
        if unserved:
            self._events.emit(events.QueueNotServed(where=", ".join(unserved)))

    @property
    def _sql(self) -> Dialect:
        return self._driver.sql

    async def _run(self, operation: Operation[T]) -> T:
        try:
            async with asyncio.timeout(DEADLINE):
                return await self._driver.run(operation)
        except TimeoutError:
            raise StoreUnavailable(f"{operation.name} took longer than {DEADLINE:.0f} s") from None


def _actors(process: RegisteredProcess) -> list[Mapping[str, Any]]:
    """What runs in a process, as far as its row tells it in our own way."""
    try:
        actors = json.loads(process.metadata)["actors"]
    except (ValueError, KeyError, TypeError):
        return []
    return [actor for actor in actors if isinstance(actor, dict)] if isinstance(actors, list) else []


def _is_served(queue: str, lane: Lane, processes: list[RegisteredProcess]) -> bool:
    for process in processes:
        actors = _actors(process)
        if any(_serves(actor, queue, lane) for actor in actors):
            return True
    return False


def _serves(actor: Mapping[str, Any], queue: str, lane: Lane) -> bool:
    patterns = actor.get("queues")
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
        return False
    serves_queue = "*" in patterns or queue in expand(patterns, [queue])
    return actor.get("kind") == "worker" and bool(actor.get(lane.name.lower())) and serves_queue
