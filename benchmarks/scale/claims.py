"""What a claim costs with much data that it must not read: rows, paused queues, queue names.

The claims alternate between a large and a small database of the same server, so that other load on the machine slows
both. A measurement covers what a worker does: choose the queues, and claim from them. The claimed jobs are released
before the next claim, which is not measured.
"""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from benchmarks.support.rounds import percentile
from benchmarks.support.second_database import second_database
from benchmarks.support.servers import version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.support.report import Figures
    from steady_queue.aio.worker.queues import QueuePlan
    from steady_queue.store.drivers.pool import AsyncDriver

#: The number of rows of each kind: ready, finished, and scheduled for another day.
MANY_ROWS, FEW_ROWS = 1_000_000, 1_000
QUEUES, PAUSED_QUEUES = 20, 18
MANY_QUEUES = 10_000
#: The jobs of one claim, and the claims on each database.
CLAIM_SIZE, CLAIMS = 50, 1_000
#: The claims on each database that are not measured.
WARM_UP_CLAIMS = 20
QUICK_DIVISOR = 20
TARGET_RATIO = 2.0


def measure(alias: str, figures: Figures, *, quick: bool = False) -> None:
    """Measure on the server of one alias."""
    divisor = QUICK_DIVISOR if quick else 1
    figures.start_section("claims", f"Claims of {CLAIM_SIZE} tasks, {version(alias)}")
    rows, queues, claims = MANY_ROWS // divisor, MANY_QUEUES // divisor, CLAIMS // divisor
    with ExitStack() as opened:
        large, small, many_queues = (
            opened.enter_context(second_database(alias, name)) for name in ("large", "small", "many_queues")
        )
        started = time.monotonic()
        _fill(large, Rows(rows, QUEUES))
        _fill(small, Rows(FEW_ROWS, QUEUES))
        seconds = time.monotonic() - started
        figures.print_line(f"stored {rows:,} ready, finished and scheduled rows in {seconds:.0f} s")
        _compare(figures, f"{rows:,} rows, all queues", large, small, claims)
        for database in (large, small):
            _pause(database, range(PAUSED_QUEUES))
        _compare(figures, f"{rows:,} rows, {PAUSED_QUEUES} of {QUEUES} queues paused", large, small, claims)
        _fill(many_queues, Rows(10 * queues, queues))
        _empty(small)
        _fill(small, Rows(10 * queues, 1))
        _compare(figures, f"{queues:,} queues, all queues", many_queues, small, claims)
        for database in (many_queues, small):
            _pause(database, [queues + 1])
        _compare(figures, f"{queues:,} queues, all queues, one paused", many_queues, small, claims)


class Rows(NamedTuple):
    """The number of rows of each kind, and of the queues that they are in."""

    number: int
    queues: int


# -- measuring --------------------------------------------------------------------------------------------------------


class ClaimTimer:
    """Claims from one database, and measures each claim."""

    def __init__(self, driver: AsyncDriver, plan: QueuePlan) -> None:
        self.driver = driver
        self.plan = plan
        self.process_id = uuid4()
        self.durations: list[float] = []

    async def register(self) -> None:
        from steady_queue.store.operations.processes.registration import NewProcess, register

        process = NewProcess(id=self.process_id, kind="worker", name="claims", pid=1, hostname="here")
        await self.driver.run(register(self.driver.sql, process))

    async def claim(self) -> None:
        from steady_queue.store.job import Lane
        from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all
        from steady_queue.store.operations.settle import settle
        from steady_queue.store.outcome import Released

        started = time.perf_counter()
        lane, sql = Lane.ASYNC, self.driver.sql
        queues = await self.plan.queues([lane])
        if queues is None:
            taken = await self.driver.run(claim_from_all(sql, ClaimRequest(self.process_id, lane, CLAIM_SIZE)))
            claims = taken.claims
            if taken.is_paused:
                self.plan.require_names()
        else:
            claims = await self.driver.run(claim(sql, ClaimRequest(self.process_id, lane, CLAIM_SIZE, queues[lane])))
            self.plan.record(queues, claims, {lane: CLAIM_SIZE})
        self.durations.append(time.perf_counter() - started)
        if claims:
            await self.driver.run(settle(sql, [Released(claim) for claim in claims], process_name="claims"))


def _compare(figures: Figures, what: str, large: str, small: str, claims: int) -> None:
    in_large, in_small = asyncio.run(_measure_claims([large, small], claims))
    for share in (0.5, 0.99):
        large_ms, small_ms = percentile(in_large, share) * 1000, percentile(in_small, share) * 1000
        note = f"{large_ms:.2f} ms, small database {small_ms:.2f} ms"
        # The target is for the 99th percentile, because a busy machine delays single claims.
        target = {"target": TARGET_RATIO, "at_most": True} if share > 0.5 else {}
        figures.add(f"{what}: p{share * 100:.0f}", large_ms / small_ms, "times", note=note, **target)


async def _measure_claims(aliases: Sequence[str], claims: int) -> list[list[float]]:
    from steady_queue.aio.timing import SystemClock
    from steady_queue.aio.worker.queues import QueuePlan
    from steady_queue.db.aliases import open_async
    from steady_queue.store.queue_selection import QueueSelection

    timers = []
    for alias in aliases:
        driver = open_async(alias, size=1)
        timers.append(ClaimTimer(driver, QueuePlan(QueueSelection.of(["*"]), driver=driver, clock=SystemClock())))
    gc.disable()
    try:
        for timer in timers:
            await timer.register()
            for _ in range(WARM_UP_CLAIMS):
                await timer.claim()
            timer.durations.clear()
        for _ in range(claims):
            for timer in timers:
                await timer.claim()
    finally:
        gc.enable()
        for timer in timers:
            await timer.driver.close()
    return [timer.durations for timer in timers]


# -- databases --------------------------------------------------------------------------------------------------------


#: SQL expressions: the numbers 0 to `last`, the id of the n-th row of a kind, and the queue name of the n-th row.
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
_QUEUE_NAME = {
    "postgresql": "'queue ' || lpad(CAST(n % {queues} AS text), 5, '0')",
    "mysql": "concat('queue ', lpad(n % {queues}, 5, '0'))",
    "sqlite": "'queue ' || printf('%05d', n % {queues})",
}
_READY, _FINISHED, _SCHEDULED = 1, 2, 3
_PAST, _FUTURE = "'2024-01-01 00:00:00'", "'2099-01-01 00:00:00'"


def _fill(alias: str, rows: Rows) -> None:
    """Let the server generate the rows, and update its statistics, as autovacuum would."""
    from django.db import connections

    vendor = connections[alias].vendor
    series = _SERIES[vendor].format(last=rows.number - 1)
    name = _QUEUE_NAME[vendor].format(queues=rows.queues)
    columns = "id, queue_name, task_path, arguments, priority, lane, backend, enqueued_at"
    for kind, extra_column, extra_value in (
        (_READY, "", ""),
        (_FINISHED, ", finished_at", f", {_PAST}"),
        (_SCHEDULED, ", scheduled_at", f", {_FUTURE}"),
    ):
        id_ = _ID[vendor].format(kind=kind)
        job = f"{id_}, {name}, 'benchmarks.tasks.async_noop', '{{}}', n % 5, 0, 'default', {_PAST}{extra_value}"
        _execute(alias, f"INSERT INTO steady_queue_job ({columns}{extra_column}) SELECT {job} FROM {series}")
        if kind == _READY:
            table, names, values = "readyexecution", "queue_name, lane, priority", f"{name}, 0, n % 5"
        elif kind == _SCHEDULED:
            table, names, values = "scheduledexecution", "scheduled_at, priority", f"{_FUTURE}, n % 5"
        else:
            continue
        _execute(alias, f"INSERT INTO steady_queue_{table} (job_id, {names}) SELECT {id_}, {values} FROM {series}")
    _update_statistics(alias)


def _update_statistics(alias: str) -> None:
    from django.db import connections

    vendor = connections[alias].vendor
    for table in ("job", "readyexecution", "scheduledexecution"):
        statement = {"postgresql": "VACUUM ANALYZE {}", "mysql": "ANALYZE TABLE {}", "sqlite": "ANALYZE {}"}[vendor]
        _execute(alias, statement.format(f"steady_queue_{table}"))
    if vendor == "postgresql":
        _execute(alias, "CHECKPOINT")


def _empty(alias: str) -> None:
    for table in ("readyexecution", "scheduledexecution", "claimedexecution", "pause", "job"):
        _execute(alias, f"DELETE FROM steady_queue_{table}")


def _pause(alias: str, queues: Sequence[int]) -> None:
    for number in queues:
        values = f"'queue {number:05d}', {_PAST}"
        _execute(alias, f"INSERT INTO steady_queue_pause (queue_name, created_at) VALUES ({values})")


def _execute(alias: str, text: str) -> None:
    from django.db import connections

    with connections[alias].cursor() as cursor:
        cursor.execute(text)
