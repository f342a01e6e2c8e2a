"""Maintenance: what dead and lost processes leave behind is found and repaired."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.aio.process_identity import describe
from steady_queue.configuration import Options, Worker
from steady_queue.events import (
    ClaimsReconciled,
    JobDisplaced,
    JobFenced,
    JobsCleared,
    OrphansFailed,
    ProcessPruned,
    ProcessRegisteredAgain,
    QueueNotServed,
    SlotsRepaired,
)
from steady_queue.store.job import Lane, Until
from steady_queue.store.names import LOCK_ID_COUNT
from steady_queue.store.operations.processes.registration import NewProcess, register
from steady_queue.store.outcome import Finished
from tests.shop.tasks import charge
from tests.support.databases.tables import count, counts, query
from tests.support.runtime import EmittedEvents, error_of, in_thread, until, values, wait_for_results, worker
from tests.support.store.jobs import unique
from tests.support.store.stores import SyncStore
from tests.support.tasks import misbehaving, recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.store.job import Claim

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

#: Runs nothing but maintenance, which the test calls.
IDLE = Options(workers=[], dispatchers=worker().dispatchers)
LONG_AGO = "2020-01-01 00:00:00"


@pytest.fixture(autouse=True)
def _steady_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may prune others soon after its start."""
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(milliseconds=20))


def claimed_by(alias: str, name: str = "other", *, lane: Lane = Lane.THREAD, limit: int = 1) -> list[Claim]:
    """Claims that another process has made."""
    store = SyncStore(alias)
    return store.claim(store.worker(name), limit, lane=lane)


def silence(alias: str, name: str = "other") -> None:
    query(alias, f"UPDATE steady_queue_process SET last_heartbeat_at = '{LONG_AGO}' WHERE name = %s", name)


@pytest.mark.smoke
async def test_a_process_without_heartbeat_is_pruned_and_the_next_of_its_key_runs(database: str) -> None:
    first, second = await charge.aenqueue("ada"), await charge.aenqueue("ada")
    emitted = EmittedEvents()
    await in_thread(claimed_by, database)
    await in_thread(silence, database)
    async with running(worker(), events=emitted) as process:
        await until(lambda: process.services.heartbeat.is_steady)
        await process.services.maintenance.turn()
        await wait_for_results(first, second)
        assert error_of(first) == "steady_queue.processes.ProcessPrunedError"
        assert first.worker_ids == ["other"]
        assert not second.errors
    assert [(event.name, event.jobs) for event in emitted.of(ProcessPruned)] == [("other", 1)]
    assert await in_thread(count, database, "process") == 0


async def test_a_process_with_a_recent_heartbeat_is_not_pruned(database: str) -> None:
    await recording.works.aenqueue("its")
    await in_thread(claimed_by, database)
    async with running(IDLE) as process:
        await process.services.maintenance.turn()
        assert await in_thread(counts, database) == {"claimed": 1}
        assert await in_thread(count, database, "process") == 2


async def test_a_process_never_prunes_itself(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(IDLE) as process:
        await until(lambda: process.services.heartbeat.is_steady)
        monkeypatch.setattr(steady_queue, "process_alive_threshold", timedelta(0))
        await process.services.maintenance.turn()
        assert await in_thread(count, database, "process") == 1


async def test_a_process_does_not_prune_others_before_its_own_heartbeats_are_steady(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=60))
    await recording.works.aenqueue("its")
    await in_thread(claimed_by, database)
    await in_thread(silence, database)
    async with running(IDLE) as process:
        await process.services.maintenance.turn()
        assert await in_thread(counts, database) == {"claimed": 1}


async def test_claims_without_a_process_fail(database: str) -> None:
    result = await recording.works.aenqueue("orphan")
    emitted = EmittedEvents()
    await in_thread(claimed_by, database)
    await in_thread(query, database, "DELETE FROM steady_queue_process")
    async with running(IDLE, events=emitted) as process:
        await process.services.maintenance.turn()
        await result.arefresh()
    assert error_of(result) == "steady_queue.processes.ProcessMissingError"
    assert [event.jobs for event in emitted.of(OrphansFailed)] == [1]


@pytest.mark.only_on("mariadb")
async def test_emptied_lock_buckets_delay_no_turn_of_maintenance(database: str) -> None:
    result = await recording.works.aenqueue("orphan")
    await in_thread(claimed_by, database)
    await in_thread(query, database, "DELETE FROM steady_queue_process")
    await in_thread(query, database, f"DELETE FROM steady_queue_lockbucket WHERE id = {LOCK_ID_COUNT}")
    async with running(IDLE) as process:
        await process.services.maintenance.turn()
        await result.arefresh()
    assert error_of(result) == "steady_queue.processes.ProcessMissingError"


async def test_a_claim_that_is_not_known_ends_if_another_task_has_taken_its_unique_key(database: str) -> None:
    first, second = (unique(until=Until.STARTED) for _ in range(2))

    def lose_the_reply(process_id: UUID) -> None:
        store = SyncStore(database)
        store.claimed(first, process_id=process_id)
        store.enqueue(second)

    emitted = EmittedEvents()
    async with running(worker(queues=["mail"]), events=emitted) as process:
        await in_thread(lose_the_reply, process.id)
        await process.services.maintenance.turn()
        assert await in_thread(counts, database) == {"ready": 1, "failed": 1}
    assert [(event.job_id, event.other_id) for event in emitted.of(JobDisplaced)] == [(first.id, second.id)]


async def test_claims_of_its_own_that_a_process_does_not_know_are_released(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(queues=["mail"]), events=emitted) as process:
        result = await recording.works.aenqueue("lost reply")
        await in_thread(lambda: SyncStore(database).claim(process.id, lane=Lane.THREAD))
        await process.services.maintenance.turn()
        assert await in_thread(counts, database) == {"ready": 1}
        assert [event.count for event in emitted.of(ClaimsReconciled)] == [1]
    async with running(worker()):
        assert await values(result) == ["lost reply"]


async def test_claims_of_running_tasks_are_not_released(database: str) -> None:
    async with running(worker()) as process:
        results = [await recording.awaits.aenqueue("async"), await recording.blocks.aenqueue("sync")]
        await until(lambda: len(task_record.began) == 2)
        for _ in range(3):
            await process.services.maintenance.turn()
        assert await in_thread(counts, database) == {"claimed": 2}
        task_record.gate.set()
        assert await values(*results) == ["async", "sync"]
    assert set(task_record.runs.values()) == {1}


async def test_a_slot_without_an_owner_is_freed_and_the_job_that_waits_runs(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = EmittedEvents()
    first, second = await charge.aenqueue("ada"), await charge.aenqueue("ada")
    await in_thread(query, database, "DELETE FROM steady_queue_readyexecution")
    await in_thread(
        query,
        database,
        "DELETE FROM steady_queue_job WHERE id NOT IN (SELECT job_id FROM steady_queue_blockedexecution)",
    )
    async with running(worker(), events=emitted) as process:
        await until(lambda: process.services.workers[0]._polling._step >= 3)
        await process.services.maintenance.turn()
        assert (
            emitted.of(SlotsRepaired) == []
        )  # maintenance searches for it after the duration of its limit, which is that of the settings
        monkeypatch.setattr(steady_queue, "default_concurrency_control_period", timedelta(microseconds=1))
        await process.services.maintenance.turn()
        await wait_for_results(second, timeout_seconds=5)
    assert not second.errors
    assert first.id != second.id
    assert [event.count for event in emitted.of(SlotsRepaired)] == [1]


async def test_a_blocked_job_with_a_free_slot_is_promoted(database: str) -> None:
    await charge.aenqueue("ada")
    second = await charge.aenqueue("ada")
    for table in ("semaphore", "readyexecution"):
        await in_thread(query, database, f"DELETE FROM steady_queue_{table}")
    await in_thread(
        query,
        database,
        "DELETE FROM steady_queue_job WHERE id NOT IN (SELECT job_id FROM steady_queue_blockedexecution)",
    )
    async with running(worker()) as process:
        await process.services.maintenance.turn()
        await wait_for_results(second, timeout_seconds=5)


async def test_old_finished_jobs_are_cleared_and_others_kept(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        old, new, failed = await wait_for_results(
            await recording.rests.aenqueue("old"),
            await recording.rests.aenqueue("new"),
            await misbehaving.misbehaves.aenqueue("NUL"),
        )
        await in_thread(_age, database, old.id)
        await process.services.maintenance.turn()
        assert await in_thread(count, database, "job") == 2
        await new.arefresh()
        await failed.arefresh()
    assert [event.count for event in emitted.of(JobsCleared)] == [1]


async def test_failed_jobs_are_cleared_when_they_have_a_retention_and_finished_ones_kept_without(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "clear_finished_jobs_after", None)
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        done, _ = await wait_for_results(
            await recording.rests.aenqueue("old"), await misbehaving.misbehaves.aenqueue("NUL")
        )
        await in_thread(_age, database, done.id)
        await process.services.maintenance.turn()
        assert await in_thread(count, database, "job") == 2
        monkeypatch.setattr(steady_queue, "clear_failed_jobs_after", timedelta(0))
        await asyncio.sleep(0.01)
        await process.services.maintenance.turn()
        assert await in_thread(count, database, "job") == 1
        await done.arefresh()
    assert [(event.count, event.status) for event in emitted.of(JobsCleared)] == [(1, "failed")]


def _age(alias: str, result_id: str) -> None:
    from steady_queue.models import Job

    found: Any = Job.objects.using(alias).get(pk=UUID(result_id))
    Job.objects.using(alias).filter(pk=found.pk).update(finished_at=found.finished_at - timedelta(days=2))


async def test_finished_jobs_are_deleted_at_once_when_they_are_not_preserved(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "preserve_finished_jobs", False)

    async def is_empty() -> bool:
        return await in_thread(count, database, "job") == 0

    async with running(worker()):
        await recording.rests.aenqueue("gone")
        await recording.works.aenqueue("gone")
        await until(lambda: task_record.runs["gone"] == 2)
        await until(is_empty)


async def test_a_process_that_was_pruned_registers_again_and_its_late_outcomes_change_nothing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It must not register again before its row is missed.
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=60))
    emitted = EmittedEvents()
    left: list[int] = []
    async with running(worker(), events=emitted, leave=left.append) as process:
        result = await recording.blocks.aenqueue("late")
        await until(lambda: task_record.began == ["late"])
        await in_thread(query, database, "DELETE FROM steady_queue_process")
        await process.services.maintenance._pruning.end_orphans()
        assert await process.services.heartbeat._beat()
        assert len(emitted.of(ProcessRegisteredAgain)) == 1
        assert left == [75]  # the thread cannot be stopped, and its job has failed
        task_record.gate.set()
        await until(lambda: bool(emitted.of(JobFenced)))
        await result.arefresh()
        assert error_of(result) == "steady_queue.processes.ProcessMissingError"
        assert await values(await recording.rests.aenqueue("next")) == ["next"]


async def test_dead_processes_of_this_machine_are_pruned_at_the_start(database: str) -> None:
    result = await recording.works.aenqueue("its")

    def die() -> None:
        store = SyncStore(database)
        metadata = json.dumps({**json.loads(describe([])), "started": "1"})
        dead = NewProcess(uuid4(), "process", "dead", 2**22 + 1, "here", None, metadata)
        store.run(register(store.sql, dead))
        assert store.claim(dead.id, lane=Lane.THREAD)

    await in_thread(die)
    async with running(IDLE):
        await wait_for_results(result)
    assert error_of(result) == "steady_queue.processes.ProcessExitError"


async def test_ready_jobs_that_no_process_serves_are_reported_as_a_warning(database: str) -> None:
    emitted = EmittedEvents()
    async with running(Options(workers=[Worker(queues=["mail", "re*"], threads=0)]), events=emitted) as process:
        await recording.rests.using(queue_name="default").aenqueue("not served")
        await recording.works.using(queue_name="mail").aenqueue("no thread")
        await process.services.maintenance.warn_of_unserved()
    assert [event.where for event in emitted.of(QueueNotServed)] == ["default (async), mail (thread)"]


async def test_ready_jobs_in_an_excluded_queue_are_reported_as_not_served(database: str) -> None:
    emitted = EmittedEvents()
    options = Options(workers=[Worker(exclude_queues=["mail", "rep*"], coroutines=0)])
    async with running(options, events=emitted) as process:
        for queue in ("mail", "reports"):
            await recording.works.using(queue_name=queue).aenqueue("excluded")
        await process.services.maintenance.warn_of_unserved()
    assert [event.where for event in emitted.of(QueueNotServed)] == ["mail (thread), reports (thread)"]


@pytest.mark.parametrize("metadata", ["null", "[]", '{"actors": null}', '{"actors": [1, {"queues": 3}]}', "no JSON"])
async def test_a_process_row_with_foreign_metadata_does_no_harm(database: str, metadata: str) -> None:
    await recording.works.using(queue_name="reports").aenqueue("waits")
    await in_thread(SyncStore(database).worker, "odd")
    await in_thread(query, database, "UPDATE steady_queue_process SET metadata = %s", metadata)
    emitted = EmittedEvents()
    async with running(IDLE, events=emitted) as process:
        await process.services.maintenance.warn_of_unserved()
    assert ["reports" in event.where for event in emitted.of(QueueNotServed)] == [True]


async def test_a_settle_after_the_claim_was_lost_is_reported_as_fenced(database: str) -> None:
    await recording.works.aenqueue("its")
    (claim,) = await in_thread(claimed_by, database)
    await in_thread(silence, database)
    async with running(IDLE) as process:
        await until(lambda: process.services.heartbeat.is_steady)
        await process.services.maintenance.turn()
    verdicts = (await in_thread(SyncStore(database).settle, Finished(claim))).verdicts
    assert verdicts[claim.claim_id] == "fenced"
