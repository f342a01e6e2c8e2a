"""What entries of recurring tasks survive: edits, bad rows, newer versions, odd settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections, transaction
from django.test import override_settings

import steady_queue
from steady_queue import aschedule_recurring_task, schedule_recurring_task
from steady_queue.aio import running
from steady_queue.aio.context import Context
from steady_queue.aio.outage import Outage
from steady_queue.aio.scheduler import other_backends, scheduler
from steady_queue.aio.scheduler.scheduler import Scheduler
from steady_queue.aio.timing import SystemClock
from steady_queue.db.aliases import open_async
from steady_queue.events import RecurringDisabled, RecurringUnavailable, RuntimeFault
from steady_queue.jobs.compat import task_enqueued
from steady_queue.models import Job, RecurringTask
from steady_queue.recurring.definitions import Recurrence, Recurrences
from tests.aio.scheduler.helpers import ONLY_SCHEDULER, has_ticks, ticks
from tests.shop import tasks as shop
from tests.support.databases.tables import count, query
from tests.support.runtime import EmittedEvents, in_thread, until
from tests.support.tasks import recording

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult


pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_look_interval")]
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def change(alias: str, key: str, **values: Any) -> None:
    RecurringTask.objects.using(alias).filter(key=key).update(**values)


def entry(alias: str, key: str) -> RecurringTask:
    return RecurringTask.objects.using(alias).get(key=key)


# -- edits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["static", "dynamic"])
async def test_a_restart_with_a_changed_description_loses_no_tick(
    database: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last tick before the change is half a minute ago, the next one half an hour away."""
    tick = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=30)
    options: dict[str, Any] = {"schedule": f"{tick.minute} * * * * {tick.second}", "time_zone": "UTC"}

    async def prepare(description: str) -> None:
        kept = Recurrences()
        if kind == "static":
            kept.add(Recurrence(task=shop.anything, key="key", description=description, **options))
        else:
            await aschedule_recurring_task(shop.anything, key="key", description=description, replace=True, **options)
        monkeypatch.setattr("steady_queue.recurring.definitions.recurrences", kept)

    await prepare("old")
    async with running(ONLY_SCHEDULER):
        await until(lambda: in_thread(lambda: count(database, "recurringtask") == 1))
    await in_thread(lambda: change(database, "key", updated_at=tick - SECOND))
    await prepare("new")
    async with running(ONLY_SCHEDULER):
        await has_ticks(database, "key", 1)
    assert await in_thread(ticks, database, "key") == [tick]
    assert (await in_thread(entry, database, "key")).description == "new"


class ManualClock(SystemClock):
    """A clock that a test sets."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.only_on("sqlite")
async def test_a_scheduler_sleeps_no_longer_than_until_its_next_look(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 3.0)
    clock, emitted, driver = ManualClock(), EmittedEvents(), open_async(database)

    async def do_nothing() -> None: ...

    alone = Scheduler(
        find_static=list,
        driver=driver,
        other_backends=other_backends.OtherBackends(events=emitted),
        wake_all=do_nothing,
        context=Context(clock, emitted, Outage(clock=clock, events=emitted)),
    )
    try:
        assert await alone.turn() == 3.0
        clock.seconds = 2.5
        assert await alone.turn() == 0.5
    finally:
        await driver.close()


# -- bad rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change_to", "says"),
    [
        ({"catch_up": "sometimes"}, "catch_up must be one of none, last, all, not 'sometimes'"),
        ({"arguments": "not json"}, "not JSON"),
        ({"arguments": "[1]"}, "stored arguments"),
    ],
    ids=["catch_up", "text", "envelope"],
)
async def test_a_row_that_was_edited_by_hand_is_switched_off_with_the_reason(
    database: str, change_to: dict[str, Any], says: str
) -> None:
    for key in ("bad", "good"):
        await aschedule_recurring_task(recording.rests, key=key, every=SECOND, args=(key,))
    await in_thread(lambda: change(database, "bad", **change_to))
    async with running(ONLY_SCHEDULER):
        await has_ticks(database, "good", 1)
    found = await in_thread(entry, database, "bad")
    assert not found.enabled
    assert says in str(found.disabled_reason)


@pytest.mark.only_on("sqlite")  # the other databases store only valid times
@pytest.mark.parametrize("value", ["garbage", "", "1794852000"])
async def test_an_entry_with_an_unreadable_updated_at_is_switched_off_and_the_others_fire(
    database: str, value: str
) -> None:
    emitted = EmittedEvents()
    for key in ("bad", "good"):
        await aschedule_recurring_task(recording.rests, key=key, every=SECOND, args=(key,))
    spoil = "UPDATE steady_queue_recurringtask SET updated_at = %s WHERE task_key = 'bad'"
    await in_thread(query, database, spoil, value)
    async with running(ONLY_SCHEDULER, events=emitted):
        await has_ticks(database, "good", 2)
    assert [event.key for event in emitted.of(RecurringDisabled)] == ["bad"]
    assert emitted.of(RuntimeFault) == []


async def test_an_entry_of_newer_settings_is_left_to_processes_with_these_settings(database: str) -> None:
    emitted = EmittedEvents()
    async with running(ONLY_SCHEDULER, events=emitted):
        await aschedule_recurring_task(shop.anything, key="sign", every=SECOND)
        await has_ticks(database, "sign", 1)
        newer = {**settings.TASKS, "default": {**settings.TASKS["default"], "QUEUES": []}}
        with override_settings(TASKS=newer):
            await aschedule_recurring_task(recording.rests, key="new", every=HOUR, args=(1,), queue_name="brand new")
        await until(lambda: any(event.key == "new" for event in emitted.of(RecurringUnavailable)))
    assert (await in_thread(entry, database, "new")).enabled


# -- odd settings -----------------------------------------------------------------------------------------------------


async def test_finished_jobs_that_are_kept_for_a_century_stop_neither_recurring_tasks_nor_maintenance(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = EmittedEvents()
    monkeypatch.setattr(steady_queue, "clear_finished_jobs_after", timedelta(days=36_500))
    await aschedule_recurring_task(recording.rests, key="tick", every=SECOND, args=("tick",))
    async with running(ONLY_SCHEDULER, events=emitted):
        await has_ticks(database, "tick", 2)
    assert emitted.of(RuntimeFault) == []


async def test_ticks_that_cannot_be_cleared_are_reported_and_recurring_tasks_go_on(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = EmittedEvents()

    def broken(*args: Any) -> None:
        raise OverflowError("the beginning of time")

    monkeypatch.setattr(scheduler, "clear_ticks", broken)
    await aschedule_recurring_task(recording.rests, key="tick", every=SECOND, args=("tick",))
    async with running(ONLY_SCHEDULER, events=emitted):
        await has_ticks(database, "tick", 2)
    (fault,) = emitted.of(RuntimeFault)
    assert "the beginning of time" in fault.error


# -- signals, options, transactions -----------------------------------------------------------------------------------


async def test_a_tick_sends_the_signal_of_an_enqueued_task_when_it_is_stored(database: str) -> None:
    received: list[tuple[str, tuple[Any, ...], bool]] = []

    def receive(sender: Any, task_result: TaskResult[Any], **kwargs: Any) -> None:
        is_stored = Job._base_manager.using(database).filter(pk=task_result.id).exists()
        received.append((task_result.id, tuple(task_result.args), is_stored))

    task_enqueued.connect(receive)
    try:
        await aschedule_recurring_task(recording.rests, key="tick", every=SECOND, args=("tick",))
        async with running(ONLY_SCHEDULER), running(ONLY_SCHEDULER):
            await until(lambda: len(received) >= 2)
    finally:
        task_enqueued.disconnect(receive)
    assert all((args, is_stored) == (("tick",), True) for _, args, is_stored in received)
    assert len({id_ for id_, _, _ in received}) == len(received)


async def test_a_task_with_a_queue_and_a_priority_of_its_own_keeps_them(database: str) -> None:
    await aschedule_recurring_task(shop.anything.using(queue_name="mail", priority=7), key="key", every=SECOND)
    async with running(ONLY_SCHEDULER):
        await has_ticks(database, "key", 1)
    jobs = await in_thread(query, database, "SELECT DISTINCT queue_name, priority FROM steady_queue_job")
    assert [tuple(row) for row in jobs] == [("mail", 7)]


class Boom(Exception):
    pass


@pytest.mark.only_on("postgres")
@pytest.mark.parametrize("on_commit", [True, False])
async def test_with_the_queue_in_another_database_a_schedule_follows_the_rules_of_enqueue(
    database: str, on_commit: bool
) -> None:
    task = shop.noop.using(enqueue_on_commit=on_commit)

    def use() -> None:
        with transaction.atomic(using="default"):
            schedule_recurring_task(task, key="kept", schedule="@daily")
            assert count(database, "recurringtask") == (0 if on_commit else 1)
        assert count(database, "recurringtask") == 1
        with pytest.raises(Boom), transaction.atomic(using="default"):
            schedule_recurring_task(task, key="lost", schedule="@daily")
            raise Boom

    await in_thread(use)
    assert await in_thread(count, database, "recurringtask") == (1 if on_commit else 2)


@pytest.mark.only_on("postgres")
async def test_the_async_form_follows_the_option_of_aenqueue(database: str) -> None:
    def begin() -> None:
        connections[database].set_autocommit(False)

    def roll_back() -> None:
        connections[database].rollback()
        connections[database].set_autocommit(True)
        connections.close_all()

    changed = {**settings.TASKS["default"], "OPTIONS": {"aenqueue": "django"}}
    with override_settings(TASKS={**settings.TASKS, "default": changed}):
        await sync_to_async(begin)()
        try:
            await aschedule_recurring_task(shop.noop, key="key", schedule="@daily")
        finally:
            await sync_to_async(roll_back)()
    assert await in_thread(count, database, "recurringtask") == 0
