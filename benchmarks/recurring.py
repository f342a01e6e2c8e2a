"""Thousands of recurring tasks that are due in the same minute: how soon all are enqueued, and who waits meanwhile.

`python -m benchmarks.recurring` measures it alone; `measure` on a database that is ready.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.figures import Figures
from benchmarks.servers import DATABASES, databases, version
from benchmarks.vitals import cpu
from tests.support.servers import ServerMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRIES, QUICK_ENTRIES = 5_000, 500
#: Seconds from the minute to the last task, and the lag of the loop meanwhile, in milliseconds.
ENQUEUED_BAR, LAG_BAR = 5.0, 50.0
#: How long before the minute the entries are there at least: they have to be read.
AHEAD = timedelta(seconds=20)
#: How long a scheduler that has nothing to enqueue is watched, in seconds.
WATCH, QUICK_WATCH = 15.0, 6.0
#: How often the loop is felt, in seconds.
PULSE = 0.002
PATIENCE = 60.0


class Seen(NamedTuple):
    """In seconds: until the last was enqueued, processor time for that, every lag, and processor time while idle."""

    took: float
    used: float
    lags: list[float]
    idle: float


def measure(alias: str, figures: Figures, *, quick: bool = False) -> None:
    """Measure on the database of this alias, which has the schema; what was stored for it is deleted afterwards."""
    from steady_queue.aio.command import launch

    count = QUICK_ENTRIES if quick else ENTRIES
    try:
        due = _fill(alias, count)
        seen = launch.run(_watched(alias, count, due, QUICK_WATCH if quick else WATCH))
        figures.heading("recurring", f"{count:,} recurring tasks due in the same minute")
        _judge(alias, figures, count, due)
        # A bar of the full number means nothing for a tenth of it.
        bars: dict[str, Any] = {} if quick else {"at_most": True}
        note = f"{seen.used:.2f} s of processor"
        figures.add("from the minute to the last", seen.took, "s", note=note, **bars, **_bar(ENQUEUED_BAR, quick))
        p99 = sorted(seen.lags)[len(seen.lags) * 99 // 100] * 1000
        worst = f"worst {max(seen.lags) * 1000:.0f} ms"
        figures.add("lag of the loop meanwhile, p99", p99, "ms", note=worst, **bars, **_bar(LAG_BAR, quick))
        figures.add("processor while none is due", seen.idle, "%")
    finally:
        _empty(alias)


def _bar(bar: float, quick: bool) -> dict[str, float]:
    return {} if quick else {"bar": bar}


def _fill(alias: str, count: int) -> datetime:
    """Entries of every kind, half of them intervals, all due at a minute that is returned."""
    from steady_queue.models import RecurringTask

    _empty(alias)
    now = datetime.now(UTC)
    due = (now + AHEAD).replace(second=0, microsecond=0) + timedelta(minutes=1)
    madrid, minute = "Europe/Madrid", due.minute
    # A day and an hour that come at this minute, and not again while it is watched.
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
                task_path="benchmarks.tasks.anothing",
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


async def _watched(alias: str, count: int, due: datetime, seconds: float) -> Seen:
    """Run a scheduler until the last is enqueued, and beside it feel how long the loop keeps others waiting."""
    from steady_queue.aio import running
    from steady_queue.configuration import Options

    lags: list[float] = []
    is_due = False

    async def feel() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(PULSE)
            if is_due:
                lags.append(max(0.0, time.perf_counter() - begun - PULSE))

    async with running(Options(workers=[], dispatchers=[]), alias=alias) as process:
        feeling = asyncio.create_task(feel())
        heard = _Heard(count)
        process.events.add(heard)
        await asyncio.sleep(max(0.0, due.timestamp() - time.time()))
        is_due, before = True, cpu(os.getpid())
        try:
            async with asyncio.timeout(PATIENCE):
                await heard.all.wait()
        except TimeoutError:
            pass
        took, used = time.time() - due.timestamp(), cpu(os.getpid()) - before
        is_due = False
        feeling.cancel()
        await asyncio.sleep(1)
        before = cpu(os.getpid())
        await asyncio.sleep(seconds)
        idle = (cpu(os.getpid()) - before) / seconds
    return Seen(took, used, lags, idle)


class _Heard:
    """Counts the tasks that the scheduler says it has enqueued."""

    def __init__(self, count: int) -> None:
        self.all = asyncio.Event()
        self._left = count

    def __call__(self, event: object) -> None:
        from steady_queue.events import RecurringEnqueued

        if isinstance(event, RecurringEnqueued):
            self._left -= event.count
            if self._left <= 0:
                self.all.set()


def _judge(alias: str, figures: Figures, count: int, due: datetime) -> None:
    """Whether each was enqueued once, for this minute."""
    from steady_queue.models import Job, RecurringExecution

    # SQLite has times as texts, of which one instant has several.
    around = (due - timedelta(seconds=1), due + timedelta(seconds=1))
    ticks = RecurringExecution.objects.using(alias).filter(run_at__range=around).count()
    jobs = Job._base_manager.using(alias).count()
    if not ticks == jobs == count:
        figures.wrong([f"{alias}: {count} entries, {ticks} records of the minute, {jobs} tasks"])


def _empty(alias: str) -> None:
    from tests.support.databases.tables import query

    for table in ("readyexecution", "recurringexecution", "recurringtask", "job"):
        query(alias, f"DELETE FROM steady_queue_{table}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure on some databases and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recurring", description=__doc__)
    parser.add_argument("--databases", default="postgres,sqlite", help=f"some of {','.join(DATABASES)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the entries, and no bars")
    options = parser.parse_args(arguments)
    aliases = [alias for alias in DATABASES if alias in options.databases.split(",")]
    figures = Figures()
    try:
        with databases(aliases):
            import steady_queue

            for alias in aliases:
                steady_queue.database = alias
                print(f"\n{version(alias)}", flush=True)
                measure(alias, figures, quick=options.quick)
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 1 if figures.missed or figures.problems else 0


if __name__ == "__main__":
    sys.exit(main())
