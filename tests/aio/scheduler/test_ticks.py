"""Which ticks become tasks, and with what: after restarts, cleanups and steps of the clock, and on other backends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings

import steady_queue
from steady_queue import actions, arguments, aschedule_recurring_task, schedule_recurring_task, task
from steady_queue.aio import running
from steady_queue.concurrency import limits_concurrency
from steady_queue.configuration import Options
from steady_queue.events import RecurringDiscarded, RecurringEnqueued, RecurringFailed
from steady_queue.jobs.compat import task_backends
from steady_queue.jobs.registry import registry
from steady_queue.models import Job, RecurringExecution, RecurringTask
from tests.aio.scheduler.helpers import ONLY_SCHEDULER, has_ticks, ticks
from tests.shop import tasks as shop
from tests.support.databases.tables import count, query
from tests.support.runtime import EmittedEvents, in_thread, until
from tests.support.store.jobs import new_job_id
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.aio import Process

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_look_interval")]
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


# -- with what --------------------------------------------------------------------------------------------------------


async def test_arguments_queue_and_priority_of_an_entry_reach_its_task(database: str) -> None:
    calls: dict[str, dict[str, Any]] = {
        "none": {},
        "positional": {"args": (1, "two")},
        "named": {"kwargs": {"three": [3]}},
        "mixed": {"args": (1,), "kwargs": {"four": {"a": timedelta(seconds=4)}}, "queue_name": "mail", "priority": 9},
    }
    for key, call in calls.items():
        await aschedule_recurring_task(shop.anything, key=key, every=SECOND, **call)
    async with running(ONLY_SCHEDULER):
        for key in calls:
            await has_ticks(database, key, 1)

    def stored(key: str) -> Job:
        tick = RecurringExecution.objects.using(database).filter(task_key=key).order_by("run_at")[0]
        return Job._base_manager.using(database).get(pk=tick.job_id)

    for key, call in calls.items():
        found = await in_thread(stored, key)
        args, kwargs = arguments.loads(found.arguments)
        assert (tuple(args), kwargs) == (call.get("args", ()), call.get("kwargs", {}))
        assert found.queue_name == call.get("queue_name", shop.anything.queue_name)
        assert found.priority == call.get("priority", shop.anything.priority)


async def test_an_entry_follows_the_clocks_of_the_project_or_its_own(database: str) -> None:
    """Most zones have the same minute; in Kathmandu it is 45 minutes later."""
    now = datetime.now(UTC)
    schedules = {"project": None, "own": "UTC"}
    for key, zone in schedules.items():
        await aschedule_recurring_task(
            shop.anything, key=key, schedule=f"{now.minute} * * * *", time_zone=zone, catch_up="last"
        )
    back = now - 3 * HOUR
    await in_thread(lambda: RecurringTask.objects.using(database).update(updated_at=back))
    with override_settings(TIME_ZONE="Asia/Kathmandu"):
        async with running(ONLY_SCHEDULER):
            for key in schedules:
                await has_ticks(database, key, 1)
    assert {key: (await in_thread(ticks, database, key))[0].minute for key in schedules} == {
        "own": now.minute,
        "project": (now.minute - 45) % 60,
    }
    row = await in_thread(lambda: RecurringTask.objects.using(database).get(key="project"))
    assert (row.schedule, row.time_zone) == (f"{now.minute} * * * *", None)


# -- transactions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["sync", "async"])
async def test_an_entry_exists_when_the_callers_transaction_commits_and_not_if_it_rolls_back(
    database: str, form: str
) -> None:
    def schedule(key: str) -> None:
        if form == "sync":
            schedule_recurring_task(shop.anything, key=key, every=HOUR)
        else:
            async_to_sync(aschedule_recurring_task)(shop.anything, key=key, every=HOUR)

    def use() -> None:
        with transaction.atomic(using=database):
            schedule("kept")
        with pytest.raises(KeyError), transaction.atomic(using=database):
            schedule("lost")
            assert RecurringTask.objects.using(database).count() == 2
            raise KeyError

    await in_thread(use)
    rows = await in_thread(query, database, "SELECT task_key FROM steady_queue_recurringtask")
    assert [row[0] for row in rows] == ["kept"]


# -- one task for each tick -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "wanted"), [("none", 0), ("last", 1), ("all", 4)])
async def test_what_was_missed_between_a_stop_and_the_next_start_follows_the_policy(
    database: str, policy: Any, wanted: int
) -> None:
    now = datetime.now(UTC)
    # The last tick is half an hour ago and the next one as far away.
    last = (now - HOUR / 2).replace(second=0, microsecond=0)
    await aschedule_recurring_task(
        shop.greet, key="late", schedule=f"{last.minute} * * * *", catch_up=policy, args=["A"]
    )
    await aschedule_recurring_task(shop.anything, key="sign", every=SECOND)
    async with running(ONLY_SCHEDULER):
        await has_ticks(database, "sign", 1)

    def as_if_stopped_long_ago() -> None:
        RecurringTask.objects.using(database).filter(key="late").update(updated_at=now - 9 * HOUR)
        RecurringExecution.objects.using(database).create(
            job_id=new_job_id(), task_key="late", run_at=last - 4 * HOUR, created_at=now
        )

    await in_thread(as_if_stopped_long_ago)
    signs = len(await in_thread(ticks, database, "sign"))
    async with running(ONLY_SCHEDULER):
        await has_ticks(database, "sign", signs + 2)
    assert (await in_thread(ticks, database, "late"))[1:] == [last - n * HOUR for n in range(wanted)][::-1]
    assert (
        await in_thread(lambda: Job._base_manager.using(database).filter(task_path__endswith="greet").count()) == wanted
    )


@pytest.mark.parametrize("how", ["not preserved", "cleared", "discarded", "queue cleared"])
async def test_no_tick_comes_again_when_its_task_is_gone(
    database: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "preserve_finished_jobs", how != "not preserved")
    await aschedule_recurring_task(recording.rests, key="tick", every=SECOND, args=("tick",), catch_up="all")
    runs = how in ("not preserved", "cleared")
    async with running(Options() if runs else ONLY_SCHEDULER):
        await has_ticks(database, "tick", 2)
        if runs:
            await until(lambda: task_record.runs["tick"] >= 2)
    before = set(await in_thread(ticks, database, "tick"))
    if how == "cleared":
        await in_thread(lambda: Job.objects.clear_finished_in_batches(finished_before=datetime.now(UTC) + HOUR))
    elif how == "discarded":
        await in_thread(
            lambda: actions.discard_many(map(str, Job._base_manager.using(database).values_list("pk", flat=True)))
        )
    elif how == "queue cleared":
        await in_thread(lambda: actions.clear_queue("default"))
    assert await in_thread(count, database, "job") == 0
    # As if this process had not enqueued any of them: only the stored ticks prevent that they are enqueued again.
    async with running(ONLY_SCHEDULER):
        await has_ticks(database, "tick", len(before) + 2)
    assert before < set(await in_thread(ticks, database, "tick"))
    assert await in_thread(count, database, "job") == len(await in_thread(ticks, database, "tick")) - len(before)


# -- the clock --------------------------------------------------------------------------------------------------------


def step(process: Process, seconds: float) -> None:
    """From now on the clock of the database, as this process reads it, is wrong by so many seconds."""
    sql = process.services.upkeep.sql
    sql.now = sql.ago(-seconds)


async def test_a_clock_that_steps_forward_and_back_doubles_no_tick_and_causes_no_burst(database: str) -> None:
    await aschedule_recurring_task(shop.anything, key="every 20 s", every=timedelta(seconds=20))
    await aschedule_recurring_task(shop.anything, key="sign", every=SECOND)
    async with running(ONLY_SCHEDULER) as process:
        await has_ticks(database, "sign", 2)
        step(process, 600)
        later = datetime.now(UTC) + timedelta(seconds=590)
        await until(lambda: in_thread(lambda: ticks(database, "sign")[-1] > later))
        forward = await in_thread(ticks, database, "every 20 s")
        # Ticks of the last minute count as late, the 50 before as missed.
        assert len(forward) <= 5
        step(process, 0)
        before = await in_thread(ticks, database, "sign")
        # An entry that begins now shows that the scheduler goes on.
        await aschedule_recurring_task(shop.anything, key="later", every=SECOND)
        await has_ticks(database, "later", 3)
        assert await in_thread(ticks, database, "sign") == before
    seen = len(await in_thread(ticks, database, "later"))
    async with running(ONLY_SCHEDULER):
        await has_ticks(database, "later", seen + 2)
    assert await in_thread(ticks, database, "sign") == before
    assert len(set(before)) == len(before)
    assert await in_thread(count, database, "job") == await in_thread(count, database, "recurringexecution")


# -- what cannot be enqueued ------------------------------------------------------------------------------------------


async def test_a_task_of_another_backend_is_enqueued_there_once_for_each_tick(
    database: str, other_backend_task: Any
) -> None:
    kept: Any = task_backends["other"]
    await aschedule_recurring_task(other_backend_task, key="foreign", every=SECOND, args=("Ada",))
    async with running(ONLY_SCHEDULER), running(ONLY_SCHEDULER):
        await has_ticks(database, "foreign", 3)
    assert len(kept.results) == len(await in_thread(ticks, database, "foreign"))
    assert all(result.args == ["Ada"] for result in kept.results)
    assert await in_thread(count, database, "job") == 0


async def test_a_backend_that_fails_is_reported_and_the_others_fire(
    database: str, other_backend_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = EmittedEvents()

    async def broken(*args: Any, **kwargs: Any) -> None:
        raise OSError("the broker is away")

    monkeypatch.setattr(task_backends["other"], "aenqueue", broken)
    await aschedule_recurring_task(other_backend_task, key="foreign", every=SECOND, args=("Ada",))
    await aschedule_recurring_task(shop.anything, key="fine", every=SECOND)
    async with running(ONLY_SCHEDULER, events=emitted):
        await has_ticks(database, "fine", 3)
    assert any("the broker is away" in fault.error for fault in emitted.of(RecurringFailed))
    assert await in_thread(count, database, "job") >= 3


async def test_a_concurrency_key_that_fails_stores_nothing_and_a_full_one_is_reported(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = EmittedEvents()
    is_broken = True

    def key(name: str) -> str:
        if is_broken and name == "broken":
            raise ValueError("no key today")
        return name

    async def choosy(name: str) -> None: ...

    choosy.__module__, choosy.__qualname__ = recording.__name__, "choosy"
    made = limits_concurrency(key=key, to=1, on_conflict="discard")(task()(choosy))
    monkeypatch.setattr(recording, "choosy", made, raising=False)
    monkeypatch.setattr(registry, "_known", {})
    for name in ("broken", "full"):
        await aschedule_recurring_task(made, key=name, every=SECOND, args=(name,))
    async with running(ONLY_SCHEDULER, events=emitted):
        await until(lambda: len(emitted.of(RecurringDiscarded)) >= 2)
        assert any("no key today" in fault.error for fault in emitted.of(RecurringFailed))
        assert await in_thread(ticks, database, "broken") == []
        is_broken = False
        await has_ticks(database, "broken", 1)
    assert {event.key for event in emitted.of(RecurringDiscarded)} <= {"full", "broken"}
    reported = sum(event.count for event in emitted.of(RecurringEnqueued)) + len(emitted.of(RecurringDiscarded))
    assert reported == await in_thread(count, database, "recurringexecution")
    # One job waits for each key: the others found the key full.
    assert await in_thread(count, database, "job") == 2
