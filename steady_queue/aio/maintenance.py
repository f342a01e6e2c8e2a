"""Maintenance: every few seconds, in every process, what keeps the queue whole when others die.

A turn begins with one statement that tells whether there is anything to do; each step after it is a short transaction
of its own, done by one process at a time. All times are the database's.
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
from steady_queue.aio.identity import is_gone
from steady_queue.aio.queues import expand
from steady_queue.aio.reports import report
from steady_queue.configuration import alive_threshold
from steady_queue.errors import StoreUnavailable
from steady_queue.processes import ProcessExitError, ProcessMissingError, ProcessPrunedError
from steady_queue.registry import durations_in_force, limits_in_force
from steady_queue.store import burial
from steady_queue.store import maintenance as store
from steady_queue.store.overrun import let_go

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from uuid import UUID

    from steady_queue.aio.outage import Outage
    from steady_queue.events import Events
    from steady_queue.store.burial import Registered
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Lane
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: Seconds between turns, before jitter; a step may take so long.
INTERVAL = 5.0
DEADLINE = 10.0
#: Turns between two looks for queues that nobody serves.
LOOK_AROUND = 12


class Maintenance:
    """Prunes dead processes, fails orphaned claims, frees lost slots, promotes stranded jobs, clears old ones."""

    name = "maintenance"

    def __init__(
        self,
        *,
        process_id: UUID,
        worker_id: str,
        driver: AsyncDriver,
        may_bury: Callable[[], bool],
        known_claims: Callable[[], set[UUID]],
        running_claims: Callable[[], set[UUID]],
        taken: Callable[[set[UUID], bool], None],
        claiming: asyncio.Lock,
        made_ready: Callable[[], Awaitable[None]],
        promotes: bool,
        at_most: float,
        events: Events,
        outage: Outage,
    ) -> None:
        self._process_id = process_id
        self._worker_id = worker_id
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

    async def run(self) -> None:
        await self._survive(self.bury_gone)
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
        await self.reconcile()
        await self.bury_gone()
        alive = alive_threshold()
        keep = steady_queue.clear_finished_jobs_after if steady_queue.preserve_finished_jobs else timedelta(0)
        keep_failed = steady_queue.clear_failed_jobs_after
        work = await self._run(store.look(self._sql, alive=alive, keep=keep, keep_failed=keep_failed))
        promoted = 0
        if work.dead and self._may_bury():
            await self._bury(alive=alive)
        if work.orphans:
            await self._fail_orphans()
        if work.ownerless:
            await self._free_ownerless()
        overran = await self._let_go() if work.overrun else 0
        if work.blocked and self._promotes:
            promoted = await self._promote()
        if work.old and keep is not None:
            await self._clear(partial(store.clear_finished, self._sql, keep), "finished")
        if work.old_failed and keep_failed is not None:
            await self._clear(partial(store.clear_failed, self._sql, keep_failed), "failed")
        if promoted or overran or work.dead or work.orphans or work.ownerless:
            await self._made_ready()
        self._turns += 1
        if self._turns % LOOK_AROUND == 1:
            await self.look_around()

    async def reconcile(self, *, buried: bool = False) -> None:
        """Compare our claims in the database with what we know: give back the unknown, tell which were taken from us.

        Only while no claim is on its way: its reply may still come. `buried`: others took this process for dead.
        """
        async with self._claiming:
            known, running = self._known_claims(), self._running_claims()
            claims = await self._run(burial.own_claims(self._sql, self._process_id))
            unknown = {claim_id: job_id for claim_id, job_id in claims.items() if claim_id not in known}
            count = await self._run(self._release(unknown)) if unknown else 0
        # What ran before and still runs has not been settled by us.
        if taken := (running & self._running_claims()) - claims.keys():
            self._taken(taken, buried)
        if count:
            self._events.tell(events.ClaimsReconciled(process_id=self._process_id, count=count))
            await self._made_ready()

    def _release(self, claims: Mapping[UUID, UUID]) -> Operation[int]:
        return burial.release(self._sql, claims, self._worker_id, limits_in_force)

    async def bury_gone(self) -> None:
        """Bury at once, at the start and in every turn, the processes of this machine that certainly no longer exist.

        Not those of a supervisor that lives: it knows how they ended, and whether their tasks are to be given back.
        """
        registered = await self._run(burial.find_processes(self._sql))
        gone = {process.id for process in registered if process.id != self._process_id and is_gone(process)}
        supervisors = {process.id for process in registered} - gone
        gone -= {process.id for process in registered if process.supervisor_id in supervisors}
        if gone:
            await self._bury(only=list(gone))
            await self._made_ready()

    async def _bury(self, *, alive: timedelta | None = None, only: list[UUID] | None = None) -> None:
        reason = "it no longer exists" if only is not None else "no heartbeat"

        def why(process: Registered) -> ErrorReport:
            if only is not None:
                return report(ProcessExitError, f"{process.name} no longer exists")
            return report(ProcessPrunedError, f"{process.name} was last alive at {process.last_heartbeat_at}")

        while True:
            buried = await self._run(
                burial.bury(self._sql, me=self._process_id, report=why, alive=alive, only=only, limits=limits_in_force)
            )
            if buried is None:
                return
            dead = buried.process
            self._events.tell(
                events.ProcessPruned(process_id=dead.id, name=dead.name, reason=reason, jobs=len(buried.jobs))
            )
            self._tell_failed(dead.id, buried.jobs, why(dead))

    async def _fail_orphans(self) -> None:
        error = report(ProcessMissingError, "the process that claimed the task is not registered")
        while jobs := await self._run(burial.fail_orphans(self._sql, error, limits_in_force)):
            self._events.tell(events.OrphansFailed(jobs=len(jobs)))
            self._tell_failed(None, jobs, error)

    def _tell_failed(self, process_id: UUID | None, jobs: Sequence[UUID], error: ErrorReport) -> None:
        if jobs:
            self._events.tell(
                events.JobsFailed(process_id=process_id, job_ids=jobs, count=len(jobs), error=error.message)
            )

    async def _free_ownerless(self) -> None:
        period = steady_queue.default_concurrency_control_period
        operation = store.free_ownerless(self._sql, after=period, durations=durations_in_force, limits=limits_in_force)
        if count := await self._run(operation):
            self._events.tell(events.SlotsRepaired(count=count))

    async def _let_go(self) -> int:
        overran = await self._run(let_go(self._sql, limits_in_force))
        for job_id, path, key in overran:
            self._events.tell(events.JobOverran(job_id=job_id, task_path=path, concurrency_key=key))
        return len(overran)

    async def _promote(self) -> int:
        total, after = 0, ""
        while True:
            count, next_key = await self._run(store.promote_stranded(self._sql, after, limits_in_force))
            total += count
            if next_key is None:
                break
            after = next_key
        if total:
            self._events.tell(events.JobsPromoted(by="maintenance", count=total))
        return total

    async def _clear(self, clear: Callable[[], Operation[int]], which: str) -> None:
        # One batch a turn under load would fall behind; a few, with the connection free for a heartbeat between them.
        for _ in range(20):
            count = await self._run(clear())
            if count:
                self._events.tell(events.JobsCleared(count=count, which=which))
            if count < burial.BATCH:
                return

    async def look_around(self) -> None:
        """Warn of ready jobs in queues or lanes that no live process serves."""
        waiting = await self._run(store.find_waiting(self._sql))
        if not waiting:
            return
        processes = await self._run(burial.find_processes(self._sql))
        unserved = [
            f"{queue} ({lane.name.lower()})" for queue, lane in waiting if not _is_served(queue, lane, processes)
        ]
        if unserved:
            self._events.tell(events.NobodyServes(where=", ".join(unserved)))

    @property
    def _sql(self) -> Dialect:
        return self._driver.sql

    async def _run(self, operation: Operation[T]) -> T:
        try:
            async with asyncio.timeout(DEADLINE):
                return await self._driver.run(operation)
        except TimeoutError:
            raise StoreUnavailable(f"{operation.name} took longer than {DEADLINE:.0f} s") from None


def _actors(process: Registered) -> list[Mapping[str, Any]]:
    """What runs in a process, as far as its row tells it in our own way."""
    try:
        actors = json.loads(process.metadata)["actors"]
    except (ValueError, KeyError, TypeError):
        return []
    return [actor for actor in actors if isinstance(actor, dict)] if isinstance(actors, list) else []


def _is_served(queue: str, lane: Lane, processes: list[Registered]) -> bool:
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
