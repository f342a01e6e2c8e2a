"""Thousands of recurring tasks that are due in the same minute: the time to enqueue them, and the event loop lag."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.support.process_usage import read_cpu_seconds
from benchmarks.support.rounds import percentile
from benchmarks.support.servers import version

if TYPE_CHECKING:
    from benchmarks.support.report import Figures

ENTRIES, QUICK_ENTRIES = 5_000, 500
#: From the minute to the last enqueue, and the event loop lag during that time.
TARGET_SECONDS, TARGET_LAG_MILLISECONDS = 5.0, 50.0
#: The entries are stored at least this long before the minute: the scheduler has to read them.
STORED_BEFORE = timedelta(seconds=20)
#: How long the CPU time of an idle scheduler is measured.
IDLE_SECONDS, QUICK_IDLE_SECONDS = 15.0, 6.0
#: The interval at which the lag of the event loop is measured.
LAG_INTERVAL_SECONDS = 0.002
TIMEOUT_SECONDS = 60.0


class Measurement(NamedTuple):
    """The result of one run."""

    #: From the minute to the last enqueue.
    seconds: float
    cpu_seconds: float
    #: Of the event loop, in seconds.
    lags: list[float]
    #: The share of a CPU while no task is due.
    idle_cpu: float


def measure(alias: str, figures: Figures, *, quick: bool = False) -> None:
    """Measure on a migrated database; the stored rows are deleted afterwards."""
    from steady_queue.aio.command import launch

    count = QUICK_ENTRIES if quick else ENTRIES
    try:
        due = _fill(alias, count)
        measurement = launch.run(_run_scheduler(alias, count, due, QUICK_IDLE_SECONDS if quick else IDLE_SECONDS))
        figures.start_section("recurring", f"{count:,} recurring tasks due in the same minute, {version(alias)}")
        _check_rows(alias, figures, count, due)
        note = f"{measurement.cpu_seconds:.2f} s of CPU"
        target = _target(TARGET_SECONDS, quick)
        figures.add("from the minute to the last enqueue", measurement.seconds, "s", note=note, **target)
        lag = percentile(measurement.lags, 0.99) * 1000
        note = f"longest {max(measurement.lags) * 1000:.0f} ms"
        figures.add("event loop lag, p99", lag, "ms", note=note, **_target(TARGET_LAG_MILLISECONDS, quick))
        figures.add("CPU while no task is due", measurement.idle_cpu, "%")
    finally:
        _empty(alias)


def _target(target: float, quick: bool) -> dict[str, Any]:
    """The targets are for the full number of tasks; a quick run has none."""
    return {} if quick else {"target": target, "at_most": True}


def _fill(alias: str, count: int) -> datetime:
    """Store entries of every kind, half of them intervals. Returns the minute at which all of them are due."""
    from steady_queue.models import RecurringTask

    _empty(alias)
    now = datetime.now(UTC)
    due = (now + STORED_BEFORE).replace(second=0, microsecond=0) + timedelta(minutes=1)
    madrid, minute = "Europe/Madrid", due.minute
    # Schedules that are due at this minute, and not again during the measurement.
    crons = [
        (f"{minute} * * * *", None),
        (f"{minute} {due.hour} * * *", "UTC"),
        (f"{minute} {due.hour} {due.day} * *", "UTC"),
        (f"{minute} */1 * * mon-sun", madrid),
        (f"{minute},{(minute + 30) % 60} * * * *", madrid),
    ]
    seconds = int(due.timestamp())
    intervals = [n for n in range(600, 36_000, 60) if seconds % n == 0] or [60 * (seconds // 60)]
    rows = []
    for number in range(count):
        text, zone = crons[number % len(crons)]
        if number % 2:
            text, zone = f"@every {intervals[number % len(intervals)]}", None
        rows.append(
            RecurringTask(
                key=f"benchmark {number:05}",
                task_path="benchmarks.tasks.async_noop",
                schedule=text,
                time_zone=zone,
                catch_up="last",
                arguments="[1,[1],{}]",
                created_at=now,
                updated_at=now,
            )
        )
    RecurringTask.objects.using(alias).bulk_create(rows, batch_size=500)
    return due


async def _run_scheduler(alias: str, count: int, due: datetime, idle_seconds: float) -> Measurement:
    """Run a scheduler until it has enqueued all tasks, and measure the lag of the event loop during that time."""
    from steady_queue.aio import running
    from steady_queue.configuration import Options

    lags: list[float] = []
    is_due = False

    async def measure_lag() -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(LAG_INTERVAL_SECONDS)
            if is_due:
                lags.append(max(0.0, time.perf_counter() - started - LAG_INTERVAL_SECONDS))

    async with running(Options(workers=[], dispatchers=[]), alias=alias) as process:
        lag_task = asyncio.create_task(measure_lag())
        counter = _EnqueueCounter(count)
        process.events.add(counter)
        await asyncio.sleep(max(0.0, due.timestamp() - time.time()))
        is_due, before = True, read_cpu_seconds(os.getpid())
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await counter.is_complete.wait()
        except TimeoutError:
            pass
        seconds, cpu_seconds = time.time() - due.timestamp(), read_cpu_seconds(os.getpid()) - before
        is_due = False
        lag_task.cancel()
        await asyncio.sleep(1)
        before = read_cpu_seconds(os.getpid())
        await asyncio.sleep(idle_seconds)
        idle_cpu = (read_cpu_seconds(os.getpid()) - before) / idle_seconds
    return Measurement(seconds, cpu_seconds, lags, idle_cpu)


class _EnqueueCounter:
    """Counts the enqueued tasks by the events of the scheduler."""

    def __init__(self, count: int) -> None:
        self.is_complete = asyncio.Event()
        self._remaining = count

    def __call__(self, event: object) -> None:
        from steady_queue.events import RecurringEnqueued

        if isinstance(event, RecurringEnqueued):
            self._remaining -= event.count
            if self._remaining <= 0:
                self.is_complete.set()


def _check_rows(alias: str, figures: Figures, count: int, due: datetime) -> None:
    """Check that each task was enqueued once, for this minute."""
    from steady_queue.models import Job, RecurringExecution

    # SQLite stores times as text, in which one instant has several forms.
    around = (due - timedelta(seconds=1), due + timedelta(seconds=1))
    ticks = RecurringExecution.objects.using(alias).filter(run_at__range=around).count()
    jobs = Job._base_manager.using(alias).count()
    if not ticks == jobs == count:
        figures.add_problems([f"{alias}: {count} entries, {ticks} stored ticks of the minute, {jobs} jobs"])


def _empty(alias: str) -> None:
    from tests.support.databases.tables import query

    for table in ("readyexecution", "recurringexecution", "recurringtask", "job"):
        query(alias, f"DELETE FROM steady_queue_{table}")
