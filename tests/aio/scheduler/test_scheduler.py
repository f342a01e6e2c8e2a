"""The scheduler: recurring tasks are enqueued at their times, once."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from steady_queue import (
    adisable_recurring_task,
    aenable_recurring_task,
    aschedule_recurring_task,
    aunschedule_recurring_task,
    disable_recurring_task,
    enable_recurring_task,
    schedule_recurring_task,
    unschedule_recurring_task,
)
from steady_queue.aio import running
from steady_queue.aio.scheduler import scheduler
from steady_queue.configuration import Options, Worker
from steady_queue.errors import ConfigurationError, UnknownRecurringTask
from steady_queue.events import RecurringDisabled
from steady_queue.models import RecurringExecution, RecurringTask
from steady_queue.recurring.definitions import Recurrence, Recurrences
from tests.aio.scheduler.helpers import ONLY_SCHEDULER
from tests.shop import tasks as shop
from tests.support.databases.tables import count, query
from tests.support.processes.commands import command, wait_for_output
from tests.support.runtime import EmittedEvents, in_thread, until
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("short_look_interval"),
    pytest.mark.usually_on("postgres", "mariadb", "sqlite"),
]
SECOND = timedelta(seconds=1)


@pytest.fixture
def static(monkeypatch: pytest.MonkeyPatch) -> Recurrences:
    """The recurring tasks of the code, for this test alone."""
    monkeypatch.setattr("steady_queue.recurring.definitions.recurrences", kept := Recurrences())
    return kept


def recurrence(key: str, **options: Any) -> Recurrence:
    return Recurrence(**{"task": recording.rests, "key": key, "every": SECOND, "args": (key,), **options})


def missed(alias: str, key: str, ago: timedelta) -> None:
    """Store that the entry was last changed so long ago."""
    RecurringTask.objects.using(alias).filter(key=key).update(updated_at=datetime.now(UTC) - ago)


@pytest.mark.smoke
async def test_a_static_entry_fires_every_second_and_its_tasks_run(database: str, static: Recurrences) -> None:
    static.add(recurrence("tick"))
    async with running(Options()):
        await until(lambda: task_record.runs["tick"] >= 3)
    times = await in_thread(
        lambda: [row.run_at for row in RecurringExecution.objects.using(database).order_by("run_at")]
    )
    assert all(later - earlier == SECOND for earlier, later in pairwise(times))
    assert len(times) == await in_thread(count, database, "job")


@pytest.mark.parametrize("options", [{"skip_recurring": True}, {"only_work": True}])
async def test_a_process_without_a_scheduler_enqueues_no_recurring_task(
    database: str, static: Recurrences, options: dict[str, Any]
) -> None:
    static.add(recurrence("tick"))
    async with running(Options(workers=[Worker()], **options)) as process:
        assert process.services.schedulers == []
        await until(lambda: process.services.last_poll.seconds_ago() is not None)
    assert await in_thread(count, database, "recurringtask") == await in_thread(count, database, "job") == 0


async def test_several_schedulers_enqueue_each_tick_once(database: str, static: Recurrences) -> None:
    for number in range(5):
        static.add(recurrence(f"tick {number}"))
    async with running(ONLY_SCHEDULER), running(ONLY_SCHEDULER), running(ONLY_SCHEDULER):
        await until(lambda: in_thread(lambda: count(database, "recurringexecution") >= 15))
    doubled = "SELECT task_key FROM steady_queue_recurringexecution GROUP BY task_key, run_at HAVING count(*) > 1"
    assert await in_thread(query, database, doubled) == []
    assert await in_thread(count, database, "job") == await in_thread(count, database, "recurringexecution")


async def test_problems_in_the_code_are_refused_at_the_start_all_at_once(database: str, static: Recurrences) -> None:
    static.add(recurrence("twice"))
    static.add(recurrence("twice", schedule="x x", every=None))
    static.add(recurrence("zone", time_zone="Nowhere"))
    with pytest.raises(ConfigurationError) as raised:
        async with running(Options()):
            pass
    for part in ("2 entries have this key", "has 2 fields"):
        assert part in str(raised.value)
    async with running(Options(skip_recurring=True)):
        pass


async def test_a_broken_entry_is_switched_off_with_the_reason_and_others_fire(database: str) -> None:
    emitted = EmittedEvents()
    for key in ("fine", "cron", "task", "zone", "arguments", "queue"):
        await aschedule_recurring_task(recording.rests, key=key, every=SECOND, args=(key,))
    changes: dict[str, dict[str, Any]] = {
        "cron": {"schedule": "not a cron"},
        "task": {"task_path": "os.system"},
        "zone": {"schedule": "* * * * *", "time_zone": "Mars/Olympus"},
        "queue": {"priority": 5000},
    }

    def spoil() -> None:
        for key, values in changes.items():
            RecurringTask.objects.using(database).filter(key=key).update(**values)

    await in_thread(spoil)
    async with running(Options(), events=emitted):
        await until(lambda: task_record.runs["fine"] >= 2)
    assert {event.key for event in emitted.of(RecurringDisabled)} == changes.keys()
    rows = await in_thread(lambda: {row.key: row for row in RecurringTask.objects.using(database).all()})
    assert {key for key, row in rows.items() if not row.enabled} == changes.keys()
    assert "not a cron" in str(rows["cron"].disabled_reason)
    assert "Mars/Olympus" in str(rows["zone"].disabled_reason)
    assert "os.system" in str(rows["task"].disabled_reason)


async def test_dynamic_entries_come_change_and_go_while_it_runs(database: str) -> None:
    async with running(Options()):
        await aschedule_recurring_task(recording.rests, key="dynamic", every=SECOND, args=("first",))
        await until(lambda: task_record.runs["first"] >= 1)
        with pytest.raises(ConfigurationError, match="already"):
            await aschedule_recurring_task(recording.rests, key="dynamic", every=SECOND, args=("second",))
        await aschedule_recurring_task(recording.rests, key="dynamic", every=SECOND, args=("second",), replace=True)
        await until(lambda: task_record.runs["second"] >= 1)
        await adisable_recurring_task("dynamic")
        of = RecurringExecution.objects.using(database).filter(task_key="dynamic")
        off = await in_thread(of.count)
        # Created after the other was switched off: its ticks show for how long the other had none.
        await aschedule_recurring_task(recording.rests, key="sign", every=SECOND, args=("sign",))
        await until(lambda: task_record.runs["sign"] >= 2)
        assert await in_thread(of.count) <= off + 1
        await aunschedule_recurring_task("sign")
        await aenable_recurring_task("dynamic")
        await until(lambda: in_thread(lambda: of.count() >= off + 2))
        await aunschedule_recurring_task("dynamic")
    assert await in_thread(count, database, "recurringtask") == 0
    with pytest.raises(UnknownRecurringTask):
        await aunschedule_recurring_task("dynamic")


async def test_the_sync_forms_do_the_same_inside_the_callers_transaction(database: str) -> None:
    def use() -> None:
        schedule_recurring_task(shop.greet, key="hello", schedule="0 9 * * *", args=("Ada",), time_zone="Europe/Madrid")
        with pytest.raises(ConfigurationError, match="already"):
            schedule_recurring_task(shop.greet, key="hello", schedule="0 9 * * *", args=("Alan",))
        schedule_recurring_task(shop.greet, key="hello", schedule="0 8 * * *", args=("Alan",), replace=True)
        disable_recurring_task("hello")
        row = RecurringTask.objects.using(database).get()
        assert (row.schedule, row.enabled, row.static) == ("0 8 * * *", False, False)
        enable_recurring_task("hello")
        unschedule_recurring_task("hello")
        for unknown in (unschedule_recurring_task, enable_recurring_task, disable_recurring_task):
            with pytest.raises(UnknownRecurringTask):
                unknown("hello")
        for bad in ({"schedule": "nonsense"}, {}, {"schedule": "* * * * *", "priority": 999}):
            with pytest.raises(ConfigurationError):
                schedule_recurring_task(shop.noop, key="bad", **bad)

    await in_thread(use)


@pytest.mark.parametrize(("policy", "wanted"), [("none", 0), ("last", 1), ("all", 5)])
async def test_missed_ticks_follow_the_policy(database: str, policy: Any, wanted: int) -> None:
    hours = timedelta(hours=1)
    now = datetime.now(UTC)
    # The next tick is half an hour away.
    minute = (now.minute + 30) % 60
    await aschedule_recurring_task(
        recording.rests, key="late", schedule=f"{minute} * * * *", args=(1,), catch_up=policy
    )
    await aschedule_recurring_task(recording.rests, key="sign", every=SECOND, args=(2,))
    await in_thread(missed, database, "late", 5 * hours)
    of = RecurringExecution.objects.using(database)
    async with running(ONLY_SCHEDULER):
        await until(lambda: in_thread(lambda: of.filter(task_key="sign").count() >= 2))
    assert await in_thread(of.filter(task_key="late").count) == wanted


async def test_a_limited_recurring_task_takes_its_slots(database: str) -> None:
    await aschedule_recurring_task(recording.alone, key="alone", every=SECOND, args=("alone",))
    async with running(Options()):
        await until(lambda: task_record.runs["alone"] >= 2)
    assert task_record.peak["alone"] == 1


@pytest.mark.timeout(150)
async def test_very_many_entries_that_are_due_at_once_fire_once_each_and_leave_the_loop_free_between(
    database: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """`python -m benchmarks.scale --only recurring` measures the delay, with 5,000 entries."""
    many = 1_500
    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 3.0)

    def fill() -> None:
        now = datetime.now(UTC)
        plain: dict[str, Any] = {"arguments": "[1,[],{}]", "created_at": now, "updated_at": now}
        plain |= {"task_path": "tests.shop.tasks.anoop", "schedule": "* * * * * */15", "catch_up": "last"}
        rows = [RecurringTask(key=f"key {number}", **plain) for number in range(many)]
        RecurringTask.objects.using(database).bulk_create(rows, batch_size=500)

    def whole() -> bool:
        """Whether all entries have fired at one tick."""
        text = "SELECT count(*) FROM steady_queue_recurringexecution GROUP BY run_at"
        return (many,) in query(database, text)

    await in_thread(fill)
    held: list[float] = []

    async def watch() -> None:
        while True:
            # The processor time of this thread: other processes of the machine do not count.
            begun = time.thread_time()
            await asyncio.sleep(0.005)
            held.append(time.thread_time() - begun)

    # A collection would scan all objects that other tests have left, and block the loop meanwhile.
    gc.freeze()
    request.addfinalizer(gc.unfreeze)
    watching = asyncio.create_task(watch())
    async with running(ONLY_SCHEDULER):
        # At the first tick some entries may not be read yet; at the second all of them are.
        await until(lambda: in_thread(whole), timeout_seconds=80)
    watching.cancel()
    # Without a pause in between, the loop would be blocked once, for all entries.
    assert max(held) < sum(seconds for seconds in held if seconds > 0.001) * 0.4


async def test_schedulers_that_are_killed_lose_and_double_no_tick(database: str) -> None:
    """Two real processes, which are killed and replaced one after another."""
    for number in range(20):
        await aschedule_recurring_task(shop.anoop, key=f"tick {number}", every=SECOND, catch_up="all")
    setup = "from steady_queue.aio.scheduler import scheduler; scheduler.LOOK_SECONDS = 0.2"
    until_killed = 2.0

    def start(stack: ExitStack) -> Any:
        environ = {"STEADY_QUEUE_ONLY_WORK": "0"}
        return stack.enter_context(command(database, "--async", setup=setup, environ=environ))

    with ExitStack() as stack:
        processes = [start(stack) for _ in range(2)]
        for process in processes:
            await wait_for_output(process, "started")
        for turn in range(3):
            await asyncio.sleep(until_killed / 4)
            os.kill(processes[turn % 2].pid, signal.SIGKILL)
            processes[turn % 2] = start(stack)
            await wait_for_output(processes[turn % 2], "started")
        enough = await in_thread(count, database, "recurringexecution") + 40
        await until(lambda: in_thread(lambda: count(database, "recurringexecution") >= enough))
    rows = await in_thread(
        query, database, "SELECT task_key, run_at FROM steady_queue_recurringexecution ORDER BY 1, 2"
    )
    assert len(set(rows)) == len(rows) == await in_thread(count, database, "job")
    for (key, earlier), (other, later) in pairwise(rows):
        assert key != other or later - earlier == SECOND, f"{key} lost a tick between {earlier} and {later}"
