"""Each event is emitted once, with its fields: in one process, on each database."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from django.db import transaction

import steady_queue
from steady_queue import actions, events, task
from steady_queue.aio import running
from steady_queue.concurrency import limits_concurrency
from steady_queue.configuration import Options, Worker
from steady_queue.errors import ConcurrencyKeyError
from steady_queue.events import Event, Polled
from steady_queue.models import RecurringExecution
from steady_queue.recurring.definitions import Recurrence, Recurrences
from tests.shop import tasks as shop
from tests.support.databases.tables import query
from tests.support.runtime import EmittedEvents, in_thread, until, values, wait_for_results, worker
from tests.support.store.jobs import job, later, limited
from tests.support.store.stores import SyncStore
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from tests.support.servers.proxy import Proxy

anyio = pytest.mark.anyio
ONLY_SCHEDULER = Options(workers=[], dispatchers=[])


@pytest.fixture
def emitted() -> EmittedEvents:
    return EmittedEvents()


def one(emitted: EmittedEvents, kind: type[Event]) -> dict[str, Any]:
    """The fields of the only event of its kind, which are those that its class names."""
    (event,) = emitted.of(kind)
    return fields(event)


def fields(event: Event) -> dict[str, Any]:
    named = {name for kind in type(event).__mro__ for name in getattr(kind, "__annotations__", {})} - {"level", "text"}
    assert vars(event).keys() == named
    return vars(event)


@anyio
async def test_claims_polls_and_settles(database: str, emitted: EmittedEvents) -> None:
    async with running(worker(), events=emitted) as process:
        result = await recording.rests.aenqueue("a")
        assert await values(result) == ["a"]
        await until(lambda: bool(emitted.of(events.JobsSettled)))
        await until(lambda: {poll.actor for poll in emitted.of(Polled)} >= {"worker 1", "dispatcher", "scheduler"})
    claimed = one(emitted, events.JobsClaimed)
    assert (claimed["process_id"], claimed["job_ids"], claimed["count"]) == (process.id, [UUID(result.id)], 1)
    assert claimed["milliseconds"] > 0
    settled = one(emitted, events.JobsSettled)
    assert (settled["count"], settled["promoted"]) == (1, 0)
    polls = [fields(event) for event in emitted.of(Polled)]
    assert {poll["actor"] for poll in polls} == {"worker 1", "dispatcher", "scheduler"}
    assert sum(poll["found"] for poll in polls if poll["actor"] == "worker 1") == 1
    assert all(poll["milliseconds"] >= 0 for poll in polls)


@anyio
async def test_starts_registrations_stops_and_deregistrations(database: str, emitted: EmittedEvents) -> None:
    async with running(worker(queues=["mail"], threads=2), events=emitted) as process:
        pass
    started = one(emitted, events.ProcessStarted)
    assert (started["name"], started["queues"], started["threads"]) == (process.name, "mail", 2)
    registered = one(emitted, events.ProcessRegistered)
    assert (registered["process_id"], registered["name"]) == (process.id, process.name)
    assert (registered["kind"], registered["pid"]) == ("process", process.services.row.pid)
    assert one(emitted, events.ProcessStopping) == {"name": process.name, "running": 0, "seconds": 5.0}
    assert one(emitted, events.ProcessDeregistered) == {"process_id": process.id, "name": process.name, "claims": 0}
    assert one(emitted, events.ProcessStopped) == {"name": process.name, "released": 0, "abandoned": 0}


@anyio
async def test_an_immediate_stop_with_a_task_that_cannot_be_stopped(
    database: str, emitted: EmittedEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steady_queue.aio.process.deadlines.FLUSH_NOW_SECONDS", 30.0)  # enough on a busy machine
    async with running(worker(), events=emitted) as process:
        result = await recording.blocks.aenqueue("long")
        await until(lambda: task_record.began == ["long"])
        process.quit()
        process.quit()
    assert one(emitted, events.ProcessQuitting) == {"name": process.name, "running": 1}
    assert one(emitted, events.ProcessStopping)["seconds"] == 0.0
    failed = one(emitted, events.JobsFailed)
    assert (failed["process_id"], failed["job_ids"], failed["count"]) == (process.id, [UUID(result.id)], 1)
    assert "stopped before the task did" in failed["error"]
    assert one(emitted, events.ProcessDeregistered)["claims"] == 1
    task_record.gate.set()


@anyio
async def test_a_task_that_is_released(database: str, emitted: EmittedEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(0))
    async with running(worker(), events=emitted) as process:
        result = await recording.awaits.aenqueue("long")
        await until(lambda: task_record.began == ["long"])
    released = one(emitted, events.JobReleased)
    assert (released["job_id"], released["worker_id"]) == (UUID(result.id), process.name)
    assert released["reason"] == "the process stops"


@anyio
async def test_a_registration_that_fails_and_one_that_is_made_again(
    database: str, emitted: EmittedEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.05))
    async with running(worker(), events=emitted) as process:
        await in_thread(query, database, "DELETE FROM steady_queue_process")
        await until(lambda: bool(emitted.of(events.ProcessRegisteredAgain)))
    assert one(emitted, events.ProcessRegisteredAgain)["name"] == process.name


@anyio
@pytest.mark.only_on("postgres", "mariadb")
async def test_a_failed_registration_or_deregistration_is_reported_once(
    database: str, proxied: str, proxy: Proxy, emitted: EmittedEvents
) -> None:
    process = steady_queue.aio.embedding.prepare(worker(), alias=proxied, events=emitted)
    register = process.services.heartbeat.register

    async def cut_off() -> None:
        proxy.go()
        await register()

    process.services.heartbeat.register = cut_off  # type: ignore[method-assign]
    runs = asyncio.create_task(process.run())
    await until(lambda: bool(emitted.of(events.ProcessRegistrationFailed)))
    await until(lambda: len(emitted.of(events.DatabaseLost)) > 0)
    proxy.come_back()
    await until(process.ready.is_set)
    assert one(emitted, events.ProcessRegistrationFailed)["name"] == process.name
    assert len(emitted.of(events.ProcessRegistered)) == 1
    proxy.go()
    process.stop()
    await runs
    failed = one(emitted, events.ProcessDeregistrationFailed)
    assert (failed["process_id"], failed["name"]) == (process.id, process.name)
    assert isinstance(failed["exception"], Exception)
    assert not emitted.of(events.ProcessDeregistered)
    proxy.come_back()
    await in_thread(query, database, "DELETE FROM steady_queue_process")


@anyio
async def test_scheduled_tasks_that_are_dispatched_and_blocked_tasks_that_are_promoted(
    database: str, emitted: EmittedEvents
) -> None:
    store = SyncStore(database)
    await in_thread(store.enqueue, job(scheduled_at=later(seconds=0.5)))
    await in_thread(store.enqueue, limited(), limited())
    async with running(worker(), events=emitted):
        await until(lambda: sum(event.count for event in emitted.of(events.JobsSettled)) == 3)
    dispatched = one(emitted, events.JobsDispatched)
    assert (dispatched["batch_size"], dispatched["count"], dispatched["discarded"]) == (500, 1, 0)
    assert one(emitted, events.JobsPromoted) == {"by": "limited settler", "count": 1}


@anyio
async def test_dead_processes_and_orphans(
    database: str, emitted: EmittedEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steady_queue.aio.process.heartbeat.Heartbeat.is_steady", True)
    store = SyncStore(database)
    first, second = job(), job()
    dead, gone = await in_thread(store.worker, "dead"), await in_thread(store.worker, "gone")
    for process_id, claimed in ((dead, first), (gone, second)):
        await in_thread(partial(store.claimed, claimed, process_id=process_id))
    await in_thread(query, database, "DELETE FROM steady_queue_process WHERE name = 'gone'")
    long_ago = "UPDATE steady_queue_process SET last_heartbeat_at = '2020-01-01 00:00:00' WHERE name = 'dead'"
    await in_thread(query, database, long_ago)
    async with running(worker(), events=emitted) as process:
        await process.services.maintenance.turn()
    pruned = one(emitted, events.ProcessPruned)
    assert pruned == {"process_id": dead, "name": "dead", "reason": "no heartbeat", "jobs": 1, "retried": 0}
    assert one(emitted, events.OrphansFailed) == {"jobs": 1}
    failed = [fields(event) for event in emitted.of(events.JobsFailed)]
    assert [(event["process_id"], event["job_ids"], event["count"]) for event in failed] == [
        (dead, [first.id], 1),
        (None, [second.id], 1),
    ]


@pytest.fixture
def static(monkeypatch: pytest.MonkeyPatch) -> Recurrences:
    kept = Recurrences()
    monkeypatch.setattr("steady_queue.aio.scheduler.scheduler.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("steady_queue.recurring.definitions.recurrences", kept)
    return kept


@anyio
async def test_recurring_tasks_that_are_enqueued_and_those_left_to_other_processes(
    database: str, emitted: EmittedEvents, static: Recurrences
) -> None:
    static.add(Recurrence(task=recording.rests, key="tick", every=timedelta(seconds=1), args=("tick",)))
    other = EmittedEvents()
    async with running(ONLY_SCHEDULER, events=emitted), running(ONLY_SCHEDULER, events=other):
        await until(lambda: bool(emitted.of(events.RecurringSkipped) or other.of(events.RecurringSkipped)))
    both = [*emitted.all, *other.all]
    enqueued = [fields(event) for event in both if isinstance(event, events.RecurringEnqueued)]
    ticks = [tick for event in enqueued for tick in event["ticks"]]
    assert {(event["count"], event["discarded"]) for event in enqueued} == {(1, 0)}
    assert {key for key, _, _ in ticks} == {"tick"}
    stored: list[tuple[Any, Any]] = await in_thread(
        list, RecurringExecution.objects.using(database).values_list("run_at", "job_id")
    )
    assert sorted((run_at, job_id) for _, run_at, job_id in ticks) == sorted(stored)
    skipped = [fields(event) for event in both if isinstance(event, events.RecurringSkipped)]
    assert {tick for event in skipped for tick in event["ticks"]} <= {(key, run_at) for key, run_at, _ in ticks}
    assert all(event["count"] == len(event["ticks"]) for event in skipped)


def refuses(name: str) -> str:
    raise LookupError("on purpose")


@limits_concurrency(key=refuses)
@task
async def keyless(name: str) -> None: ...


@anyio
async def test_a_recurring_task_whose_key_cannot_be_computed(
    database: str, emitted: EmittedEvents, static: Recurrences
) -> None:
    static.add(Recurrence(task=keyless, key="broken", every=timedelta(seconds=1), args=("tick",)))
    async with running(ONLY_SCHEDULER, events=emitted):
        await until(lambda: bool(emitted.of(events.RecurringFailed)))
    failed = fields(emitted.of(events.RecurringFailed)[0])
    assert failed["key"] == "broken"
    assert isinstance(failed["exception"], ConcurrencyKeyError)
    assert "on purpose" in failed["error"]


@anyio
async def test_what_actions_do(database: str) -> None:
    emitted: list[Event] = []
    store = SyncStore(database)
    events.subscribe(emitted.append)
    result = await shop.fail.aenqueue("on purpose")
    async with running(worker(), events=EmittedEvents()):
        await wait_for_results(result)
    ready, soon, after, blocker, blocked = job(), job(scheduled_at=later()), job(scheduled_at=later()), limited(), None
    blocked = limited()
    await in_thread(store.enqueue, ready, soon, after, blocker, blocked)
    emitted.clear()
    await actions.aretry(result)
    await actions.arun_now(str(soon.id))
    await actions.adiscard_many([str(ready.id), str(after.id), str(blocked.id)])
    await actions.aclear_queue("default")
    reported = [(type(event).__name__, vars(event)) for event in emitted]
    expected: list[tuple[str, list[UUID], str | None]] = [
        ("JobsRetried", [UUID(result.id)], None),
        ("JobsRunNow", [soon.id], None),
        ("JobsDiscarded", [after.id], "scheduled"),
        ("JobsDiscarded", [blocked.id], "blocked"),
        ("JobsDiscarded", [ready.id], "ready"),
        ("JobsDiscarded", sorted([UUID(result.id), soon.id, blocker.id]), "ready"),
    ]
    assert [(name, sorted(event["job_ids"]), event.get("status")) for name, event in reported] == expected
    assert [event["count"] for _, event in reported] == [1, 1, 1, 1, 1, 3]


def test_events_of_actions_in_a_transaction_are_emitted_after_its_commit_or_never(database: str) -> None:
    emitted: list[Event] = []
    events.subscribe(emitted.append)
    store = SyncStore(database)
    first, second = job(), job()
    store.enqueue(first, second)
    with transaction.atomic(using=database):
        actions.discard(str(first.id))
        assert emitted == []
    assert [type(event) for event in emitted] == [events.JobsDiscarded]
    with pytest.raises(LookupError), transaction.atomic(using=database):
        actions.discard(str(second.id))
        raise LookupError
    assert len(emitted) == 1


@anyio
@pytest.mark.parametrize("level", [logging.DEBUG, events.POLLING])
async def test_polls_are_logged_only_when_the_logger_is_set_below_debug(
    database: str, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    with caplog.at_level(1), caplog.at_level(level, "steady_queue"):
        async with running(Options(workers=[Worker(polling_interval=timedelta(seconds=0.01))])):
            assert await values(await recording.rests.aenqueue("a")) == ["a"]
    reported = {getattr(record, "event", None) for record in caplog.records}
    assert "JobsClaimed" in reported
    assert ("Polled" in reported) == (level == events.POLLING)
    # No statement of a poll is logged by Django: none goes through its connections.
    queries = [record.getMessage() for record in caplog.records if record.name == "django.db.backends"]
    assert not [text for text in queries if "readyexecution" in text and "SELECT" in text]
