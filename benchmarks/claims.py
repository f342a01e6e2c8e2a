"""What a claim costs when there is much that it must not read: rows, paused queues, names of queues.

A large and a small database of the same server are asked in turn, one claim each, so that whatever else happens on the
machine slows both alike. A turn is what a worker does: find out which queues to ask, and claim from them. What it
claimed is given back before the next turn, uncounted.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from benchmarks.latency import percentile
from benchmarks.servers import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.figures import Figures
    from steady_queue.aio.worker.queues import QueuePlan
    from steady_queue.store.drivers.pool import AsyncDriver

#: How many rows of each kind: ready, finished, scheduled for another day.
MANY, FEW = 1_000_000, 1_000
QUEUES, PAUSED = 20, 18
NAMES = 10_000
#: Jobs that one claim wants, and claims of each side.
ROOM, CLAIMS = 50, 1_000
RATIO_BAR = 2.0


def measure(alias: str, figures: Figures, *, quick: bool = False) -> None:
    """All of it on one database."""
    few = 20 if quick else 1
    figures.heading("claims", f"Claims of {ROOM} tasks, {version(alias)}")
    rows, names, claims = MANY // few, NAMES // few, CLAIMS // few
    with ExitStack() as opened:
        large, small, named = (opened.enter_context(_database(alias, name)) for name in ("large", "small", "named"))
        began = time.monotonic()
        _fill(large, Rows(rows, QUEUES))
        _fill(small, Rows(FEW, QUEUES))
        figures.say(f"{rows:,} ready, finished and scheduled rows took {time.monotonic() - began:.0f} s")
        _compare(figures, f"{rows:,} rows, all queues", large, small, claims)
        for database in (large, small):
            _pause(database, range(PAUSED))
        _compare(figures, f"{rows:,} rows, {PAUSED} of {QUEUES} queues paused", large, small, claims)
        _fill(named, Rows(10 * names, names))
        _empty(small)
        _fill(small, Rows(10 * names, 1))
        _compare(figures, f"{names:,} names of queues, *", named, small, claims)
        for database in (named, small):
            _pause(database, [names + 1])
        _compare(figures, f"{names:,} names of queues, *, one paused", named, small, claims)


class Rows(NamedTuple):
    """So many rows of each kind, over so many queues."""

    count: int
    queues: int


# -- measuring --------------------------------------------------------------------------------------------------------


class Side:
    """One database, and what its claims took."""

    def __init__(self, driver: AsyncDriver, plan: QueuePlan) -> None:
        self.driver = driver
        self.plan = plan
        self.process_id = uuid4()
        self.taken: list[float] = []

    async def register(self) -> None:
        from steady_queue.store.operations.processes import NewProcess, register

        process = NewProcess(id=self.process_id, kind="worker", name="claims", pid=1, hostname="here")
        await self.driver.run(register(self.driver.sql, process))

    async def turn(self) -> None:
        from steady_queue.store.job import Lane
        from steady_queue.store.operations.claim import Wanted, claim, claim_from_all
        from steady_queue.store.operations.settle import settle
        from steady_queue.store.outcome import Released

        began = time.perf_counter()
        lane, sql = Lane.ASYNC, self.driver.sql
        queues = await self.plan.queues([lane])
        if queues is None:
            taken = await self.driver.run(claim_from_all(sql, Wanted(self.process_id, lane, ROOM)))
            claims = taken.claims
            if taken.is_paused:
                self.plan.name_them()
        else:
            claims = await self.driver.run(claim(sql, Wanted(self.process_id, lane, ROOM, queues[lane])))
            self.plan.took(queues, claims, {lane: ROOM})
        self.taken.append(time.perf_counter() - began)
        if claims:
            await self.driver.run(settle(sql, [Released(claim) for claim in claims], worker_id="claims"))


def _compare(figures: Figures, what: str, large: str, small: str, claims: int) -> None:
    much, little = asyncio.run(_turns([large, small], claims))
    for share in (0.5, 0.99):
        value, beside = percentile(much, share) * 1000, percentile(little, share) * 1000
        note = f"{value:.2f} ms, beside {beside:.2f} ms"
        # A single late turn of a noisy machine does not decide: that is what the percentile is for.
        bar = {"bar": RATIO_BAR, "at_most": True} if share > 0.5 else {}
        figures.add(f"{what}: p{share * 100:.0f}", value / beside, "times", note=note, **bar)


async def _turns(aliases: Sequence[str], claims: int) -> list[list[float]]:
    from steady_queue.aio.timing import SystemClock
    from steady_queue.aio.worker.queues import QueuePlan
    from steady_queue.db.aliases import open_async

    sides = []
    for alias in aliases:
        driver = open_async(alias, size=1)
        sides.append(Side(driver, QueuePlan(["*"], driver=driver, clock=SystemClock())))
    gc.disable()
    try:
        for side in sides:
            await side.register()
            for _ in range(20):
                await side.turn()
            side.taken.clear()
        for _ in range(claims):
            for side in sides:
                await side.turn()
    finally:
        gc.enable()
        for side in sides:
            await side.driver.close()
    return [side.taken for side in sides]


# -- databases --------------------------------------------------------------------------------------------------------


@contextmanager
def _database(alias: str, name: str) -> Iterator[str]:
    """Another database of the same server, with the queue's schema."""
    from django.core.management import call_command
    from django.db import connections

    from tests.support.databases.aliases import extra_database, twin_settings
    from tests.support.databases.tables import query

    vendor = connections[alias].vendor
    place = f"claims_{name}"
    if vendor == "sqlite":
        place = str(Path(os.environ["STEADY_QUEUE_TEST_DIRECTORY"]) / f"{place}.sqlite3")
    else:
        query(alias, f"CREATE DATABASE {place}")
    try:
        with extra_database(f"{alias}-{name}", twin_settings(alias, NAME=place)) as made:
            call_command("migrate", database=made, run_syncdb=True, verbosity=0)
            yield made
    finally:
        if vendor != "sqlite":
            query(alias, f"DROP DATABASE {place}")


#: Numbers 0 to %d, and the words for them: the n-th id of a kind, the n-th queue's name, another day, now.
_SERIES = {
    "postgresql": "generate_series(0, {last}) AS s(n)",
    "mysql": "(SELECT seq AS n FROM seq_0_to_{last}) s",
    "sqlite": ("(WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < {last}) SELECT n FROM c) s"),
}
_ID = {
    "postgresql": "CAST(lpad(to_hex({kind} * 10000000 + n), 32, '0') AS uuid)",
    "mysql": "lower(lpad(hex({kind} * 10000000 + n), 32, '0'))",
    "sqlite": "printf('%032x', {kind} * 10000000 + n)",
}
_NAME = {
    "postgresql": "'queue ' || lpad(CAST(n % {queues} AS text), 5, '0')",
    "mysql": "concat('queue ', lpad(n % {queues}, 5, '0'))",
    "sqlite": "'queue ' || printf('%05d', n % {queues})",
}
_READY, _FINISHED, _SCHEDULED = 1, 2, 3
_THEN, _FAR = "'2024-01-01 00:00:00'", "'2099-01-01 00:00:00'"


def _fill(alias: str, rows: Rows) -> None:
    """The rows, made by the server, and what it then knows of its tables, as autovacuum would see to."""
    from django.db import connections

    vendor = connections[alias].vendor
    series = _SERIES[vendor].format(last=rows.count - 1)
    name = _NAME[vendor].format(queues=rows.queues)
    columns = "id, queue_name, task_path, arguments, priority, lane, backend, enqueued_at"
    for kind, more, values in (
        (_READY, "", ""),
        (_FINISHED, ", finished_at", f", {_THEN}"),
        (_SCHEDULED, ", scheduled_at", f", {_FAR}"),
    ):
        id_ = _ID[vendor].format(kind=kind)
        job = f"{id_}, {name}, 'benchmarks.tasks.anothing', '{{}}', n % 5, 0, 'default', {_THEN}{values}"
        _tell(alias, f"INSERT INTO steady_queue_job ({columns}{more}) SELECT {job} FROM {series}")
        if kind == _READY:
            table, its, place = "readyexecution", "queue_name, lane, priority", f"{name}, 0, n % 5"
        elif kind == _SCHEDULED:
            table, its, place = "scheduledexecution", "scheduled_at, priority", f"{_FAR}, n % 5"
        else:
            continue
        _tell(alias, f"INSERT INTO steady_queue_{table} (job_id, {its}) SELECT {id_}, {place} FROM {series}")
    _settle_down(alias)


def _settle_down(alias: str) -> None:
    from django.db import connections

    vendor = connections[alias].vendor
    for table in ("job", "readyexecution", "scheduledexecution"):
        words = {"postgresql": "VACUUM ANALYZE {}", "mysql": "ANALYZE TABLE {}", "sqlite": "ANALYZE {}"}[vendor]
        _tell(alias, words.format(f"steady_queue_{table}"))
    if vendor == "postgresql":
        _tell(alias, "CHECKPOINT")


def _empty(alias: str) -> None:
    for table in ("readyexecution", "scheduledexecution", "claimedexecution", "pause", "job"):
        _tell(alias, f"DELETE FROM steady_queue_{table}")


def _pause(alias: str, queues: Sequence[int]) -> None:
    for number in queues:
        _tell(alias, f"INSERT INTO steady_queue_pause (queue_name, created_at) VALUES ('queue {number:05d}', {_THEN})")


def _tell(alias: str, text: str) -> None:
    from django.db import connections

    with connections[alias].cursor() as cursor:
        cursor.execute(text)
