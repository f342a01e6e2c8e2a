"""Jobs of tasks that only newer code has: they fail, or are left to a process that has newer code."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.test import override_settings

import steady_queue
from steady_queue.aio import running
from steady_queue.aio.context import Context
from steady_queue.aio.outage import Outage
from steady_queue.aio.timing import SystemClock
from steady_queue.aio.worker.unknown_tasks import UnknownTasks, has_newer_code, snooze_seconds_of
from steady_queue.arguments import dumps
from steady_queue.db.aliases import open_async
from steady_queue.errors import UnknownTaskError
from steady_queue.events import JobSnoozed
from steady_queue.store.job import Claim, Lane
from steady_queue.store.operations.processes.registration import LaterProcess, NewProcess, deregister, register
from steady_queue.store.outcome import Failed, Snoozed, report
from tests.aio.worker.helpers import failures, rows, still_works
from tests.support.databases.tables import count, counts, query, row
from tests.support.processes.commands import command, stop_command
from tests.support.processes.process_rows import wait_for_worker
from tests.support.runtime import EmittedEvents, in_thread, until, worker
from tests.support.store.jobs import job, limited
from tests.support.store.stores import SyncStore
from tests.support.tasks.misbehaving import raises_unknown_task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from steady_queue.store.job import NewJob

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

OURS = "steady_queue.backend.SteadyQueueBackend"
NEW_TASK = "tests.shop.tasks.added_by_the_next_version"
WORKER = {"actors": [{"kind": "worker"}]}


@pytest.fixture
def releasing() -> Iterator[None]:
    tasks = {"default": {"BACKEND": OURS, "QUEUES": [], "OPTIONS": {"on_unknown_task": "release"}}}
    with override_settings(TASKS=tasks):
        yield


@pytest.fixture
def version_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "code_version", "v1")


async def register_later(alias: str, **metadata: Any) -> UUID:
    """Register a process that started later than those that run; return its id."""
    process = NewProcess(uuid4(), "process", "later", 1, "elsewhere", None, json.dumps({**WORKER, **metadata}))
    store = SyncStore(alias)
    await in_thread(store.run, register(store.sql, process))
    return process.id


async def enqueue(alias: str, *jobs: NewJob) -> None:
    await in_thread(SyncStore(alias).enqueue, *jobs)


async def wait_for_snoozed(emitted: EmittedEvents, number: int) -> None:
    async def all_snoozed() -> bool:
        return len(emitted.of(JobSnoozed)) >= number

    await until(all_snoozed, "they are not released")


@pytest.mark.usefixtures("releasing", "version_1")
async def test_unknown_tasks_wait_while_newer_code_runs_and_fail_when_it_has_gone(
    database: str,
) -> None:
    jobs = rows(task_path=NEW_TASK, expires_at=datetime.now(UTC) + timedelta(minutes=5))
    emitted = EmittedEvents()
    async with running(worker(coroutines=1, threads=1), events=emitted):
        later = await register_later(database, code_version="v2")
        await enqueue(database, *jobs)
        await wait_for_snoozed(emitted, 2)
        assert await in_thread(counts, database) == {"scheduled": 2}
        for one in jobs:
            found = await in_thread(row, database, "job", one.id, "id")
            assert found is not None
            assert (found["attempts"], found["retries"], found["errors"]) == (0, 0, None)
            assert found["expires_at"] is not None  # it has not been started
        assert {event.reason for event in emitted.of(JobSnoozed)} == {
            "its task is not known here; later may have newer code"
        }
        await still_works()

        store = SyncStore(database)
        await in_thread(store.run, deregister(store.sql, later))

        async def both_failed() -> bool:
            await in_thread(
                query, database, f"UPDATE steady_queue_scheduledexecution SET scheduled_at = {store.sql.now}"
            )
            return await in_thread(count, database, "failedexecution") == 2

        await until(both_failed, "they wait for ever")


@pytest.mark.only_on("postgres")
@pytest.mark.usefixtures("releasing", "version_1")
async def test_a_process_of_the_next_version_runs_what_an_older_one_has_left_to_it(database: str) -> None:
    jobs = rows(task_path="tests.shop.next_version.added")
    emitted = EmittedEvents()
    next_version = "import steady_queue\nsteady_queue.code_version = 'v2'"
    async with running(worker(coroutines=1, threads=1), events=emitted):
        with command(database, "--async", setup=next_version, environ={"SHOP_VERSION": "2"}) as process:
            await wait_for_worker(database, other_than=os.getpid())
            process.send_signal(signal.SIGSTOP)  # so that the older one claims them first
            await enqueue(database, *jobs)
            await wait_for_snoozed(emitted, 2)
            process.send_signal(signal.SIGCONT)

            async def have_finished() -> bool:
                found = [await in_thread(row, database, "job", one.id, "id") for one in jobs]
                return all(one is not None and one["finished_at"] is not None for one in found)

            await until(have_finished, "they are never run")
            for one in jobs:
                found = await in_thread(row, database, "job", one.id, "id")
                assert found is not None
                assert (found["attempts"], found["errors"]) == (1, None)
            await stop_command(process)


@pytest.mark.usefixtures("releasing", "version_1")
async def test_an_unknown_limited_task_holds_no_slot_while_it_waits(database: str) -> None:
    unknown, next_one = (
        limited(lane=Lane.THREAD, arguments=dumps([], {}), task_path=path)
        for path in (NEW_TASK, "tests.shop.tasks.noop")
    )
    async with running(worker(coroutines=1, threads=1)):
        await register_later(database, code_version="v2")
        await enqueue(database, unknown, next_one)

        async def has_finished() -> bool:
            found = await in_thread(row, database, "job", next_one.id, "id")
            return found is not None and found["finished_at"] is not None

        await until(has_finished, "the next job of the key is not promoted")
        assert await in_thread(count, database, "failedexecution") == 0


@pytest.mark.usefixtures("releasing", "version_1")
async def test_an_unknown_task_fails_where_no_live_process_has_newer_code(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        await register_later(database, code_version="v1")
        dead = await register_later(database, code_version="v2")
        store = SyncStore(database)
        await in_thread(
            query,
            database,
            f"UPDATE steady_queue_process SET last_heartbeat_at = {store.sql.ago(3600)} WHERE id = %s",
            dead.hex if database != "postgres" else dead,
        )
        assert set(await failures(database, *rows(task_path=NEW_TASK))) == {"steady_queue.errors.UnknownTaskError"}


@pytest.mark.usefixtures("version_1")
async def test_an_unknown_task_fails_by_default_although_newer_code_runs(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        await register_later(database, code_version="v2")
        assert set(await failures(database, *rows(task_path=NEW_TASK))) == {"steady_queue.errors.UnknownTaskError"}


@pytest.mark.usefixtures("releasing", "version_1")
async def test_a_task_of_a_backend_that_only_newer_code_has_waits_for_it(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(coroutines=1, threads=1), events=emitted):
        await register_later(database, code_version="v2")
        await enqueue(database, *rows(backend="added_by_the_next_version"))
        await wait_for_snoozed(emitted, 2)
    assert await in_thread(counts, database) == {"scheduled": 2}


@pytest.mark.usefixtures("releasing")
async def test_a_task_that_raises_the_error_itself_fails(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        await register_later(database)
        jobs = rows(task_path=raises_unknown_task.module_path)
        assert set(await failures(database, *jobs)) == {"steady_queue.errors.UnknownTaskError"}


@pytest.mark.usefixtures("releasing")
async def test_a_job_is_released_for_a_short_time_if_the_database_does_not_answer(unmigrated: str) -> None:
    emitted, clock = EmittedEvents(), SystemClock()
    context = Context(clock, emitted, Outage(clock=clock, events=emitted))
    driver = open_async(unmigrated, size=1)
    try:
        tasks = UnknownTasks(process_id=uuid4(), driver=driver, context=context)
        failure = Failed(claim_of(timedelta(days=1)), report(UnknownTaskError, "no such task"))
        (decided,) = await tasks.decide([failure])
    finally:
        await driver.close()
    assert isinstance(decided, Snoozed)
    assert decided.delay_seconds == 5
    assert "it is not known whether newer code runs elsewhere" in decided.reason


@pytest.mark.parametrize(
    ("own", "metadata", "is_newer"),
    [
        ("v1", {"code_version": "v2", "actors": []}, True),
        ("v1", {"code_version": "v1", **WORKER}, False),
        # One of them is not known: it counts if it runs tasks.
        (None, {"code_version": "v2", **WORKER}, True),
        ("v1", WORKER, True),
        (None, WORKER, True),
        (None, {"actors": [{"kind": "dispatcher"}]}, False),
        (None, {"actors": "nonsense"}, False),
        (None, [], False),
    ],
)
async def test_which_process_may_have_newer_code(
    own: str | None, metadata: Any, is_newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "code_version", own)
    assert has_newer_code(LaterProcess("later", json.dumps(metadata))) is is_newer
    assert has_newer_code(LaterProcess("later", "no JSON")) is False


async def test_a_released_job_waits_longer_the_older_it_is_and_at_most_a_minute() -> None:
    for age, delay_seconds in ((timedelta(0), 1), (timedelta(seconds=40), 10), (timedelta(days=9), 60)):
        assert snooze_seconds_of(claim_of(age)) == pytest.approx(delay_seconds, rel=0.11)


def claim_of(age: timedelta) -> Claim:
    """The claim of a job that was enqueued so long before."""
    one = job(task_path=NEW_TASK)
    fields: dict[str, Any] = {name: getattr(one, name, None) for name in Claim._fields}
    fields |= {"job_id": one.id, "claim_id": uuid4(), "claimed_at": one.enqueued_at + age, "attempts": 0, "retries": 0}
    return Claim(**fields)
