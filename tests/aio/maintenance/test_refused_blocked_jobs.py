"""Blocked and old jobs that the database refuses to change delay no others; nor do jobs of unknown lanes."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.aio.maintenance import promotion
from steady_queue.events import (
    JobsCleared,
    JobSetAside,
    JobsPromoted,
    MaintenanceStepFailed,
    MaintenanceStepRecovered,
    UnknownLane,
)
from steady_queue.store.names import LOCK_ID_COUNT
from steady_queue.store.operations.maintenance import steps as store_maintenance
from steady_queue.store.sql.postgres import LOCK_SPACE
from tests.shop.tasks import charge
from tests.support.databases.refuse_changes import refusing
from tests.support.databases.tables import count, counts, query, row
from tests.support.maintenance import IDLE, REFUSED, errors_of, run_maintenance_turn, store_finished_jobs
from tests.support.runtime import EmittedEvents, in_thread, values, worker
from tests.support.store.jobs import job, limited
from tests.support.store.stores import SyncStore
from tests.support.tasks import recording
from tests.support.threads import held

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("no_automatic_maintenance"),
    pytest.mark.usually_on("postgres", "mariadb", "sqlite"),
]


# -- bad blocked tasks ------------------------------------------------------------------------------------------------


async def test_a_blocked_task_that_cannot_be_made_ready_is_set_aside_and_the_next_of_its_key_runs(
    database: str,
) -> None:
    emitted = EmittedEvents()
    holder, bad, waits = [await charge.aenqueue("ada") for _ in range(3)]
    others = [await charge.aenqueue("alan") for _ in range(2)]
    # Their slots were deleted without a promotion.
    for lost in (holder, others[0]):
        await in_thread(_vanish, database, UUID(lost.id))
    refused = refusing(database, "INSERT", "readyexecution", UUID(bad.id))
    async with refused, running(worker(), events=emitted) as process:
        await run_maintenance_turn(process)
        assert await values(waits, others[1]) == [None, None]
        assert await errors_of(bad) == [REFUSED]
    assert [event.job_id for event in emitted.of(JobSetAside)] == [UUID(bad.id)]
    assert emitted.of(MaintenanceStepFailed) == []


async def test_a_blocked_task_that_cannot_be_made_ready_spoils_no_outcome_of_the_task_before_it(database: str) -> None:
    holder, bad, waits = [await charge.aenqueue("ada") for _ in range(3)]
    refused = refusing(database, "INSERT", "readyexecution", UUID(bad.id))
    async with refused, running(worker()) as process:
        assert await values(holder) == [None]
        await run_maintenance_turn(process)
        assert await values(waits) == [None]
        assert await errors_of(bad) == [REFUSED]


@pytest.mark.parametrize("is_owned", [False, True], ids=["ownerless", "overrun"])
async def test_a_blocked_task_that_cannot_be_made_ready_keeps_no_slot_from_being_freed(
    database: str, is_owned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "default_concurrency_control_period", timedelta(microseconds=1))
    emitted = EmittedEvents()
    first, bad, waits = limited(overrun_after=1), limited(), limited()

    def prepare() -> None:
        store = SyncStore(database)
        store.enqueue(first, bad, waits)
        if is_owned:
            store.claim(store.worker())
        else:
            query(database, "DELETE FROM steady_queue_readyexecution")
            store.ask("DELETE FROM steady_queue_job WHERE id = ?", first.id)

    await in_thread(prepare)
    async with refusing(database, "INSERT", "readyexecution", bad.id), running(IDLE, events=emitted) as process:
        await run_maintenance_turn(process)
    assert await in_thread(counts, database) == {"ready": 1, "failed": 1, **({"claimed": 1} if is_owned else {})}
    assert [event.job_id for event in emitted.of(JobSetAside)] == [bad.id]
    assert emitted.of(MaintenanceStepFailed) == []
    assert await in_thread(row, database, "readyexecution", waits.id)


async def test_keys_behind_one_that_cannot_be_promoted_at_all_are_promoted(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (promotion, store_maintenance):
        monkeypatch.setattr(module, "BATCH_ROWS", 2)  # keys in a page
    emitted = EmittedEvents()
    held = {key: [limited(key), limited(key)] for key in "abcde"}

    def prepare() -> None:
        SyncStore(database).enqueue(*(job for jobs in held.values() for job in jobs))
        for holder, _ in held.values():
            _vanish(database, holder.id)

    await in_thread(prepare)
    async with running(IDLE, events=emitted) as process:
        # It can be neither made ready nor set aside.
        async with refusing(database, "DELETE", "blockedexecution", held["a"][1].id):
            await run_maintenance_turn(process)
            assert await in_thread(counts, database) == {"ready": 4, "blocked": 1}
            assert sum(event.count for event in emitted.of(JobsPromoted)) == 4
            assert [event.step for event in emitted.of(MaintenanceStepFailed)] == ["promoting blocked tasks"]
        await run_maintenance_turn(process)
        assert await in_thread(counts, database) == {"ready": 5}


def _vanish(alias: str, job_id: UUID) -> None:
    store = SyncStore(alias)
    for table, column in (("readyexecution", "job_id"), ("semaphore", "job_id"), ("job", "id")):
        store.ask(f"DELETE FROM steady_queue_{table} WHERE {column} = ?", job_id)


# -- old tasks that cannot be deleted ---------------------------------------------------------------------------------


async def test_old_tasks_that_cannot_be_deleted_keep_no_others_from_being_cleared(database: str) -> None:
    emitted = EmittedEvents()
    jobs = [job() for _ in range(23)]
    bad = [jobs[0].id, jobs[7].id, jobs[22].id]
    await in_thread(store_finished_jobs, database, *jobs)
    async with running(IDLE, events=emitted) as process:
        async with refusing(database, "DELETE", "job", *bad):
            await run_maintenance_turn(process)
        assert await in_thread(count, database, "job") == 3
        assert sum(event.count for event in emitted.of(JobsCleared)) == 20
        assert [event.step for event in emitted.of(MaintenanceStepFailed)] == ["clearing finished tasks"]
        await run_maintenance_turn(process)
        assert await in_thread(count, database, "job") == 0
        assert [event.step for event in emitted.of(MaintenanceStepRecovered)] == ["clearing finished tasks"]


async def test_more_tasks_than_a_turn_can_step_over_keep_no_others_from_being_cleared_in_the_end(database: str) -> None:
    emitted = EmittedEvents()
    jobs = [job() for _ in range(215)]
    await in_thread(store_finished_jobs, database, *jobs)
    oldest = sorted(job.id for job in jobs)[:210]
    async with running(IDLE, events=emitted) as process:
        async with refusing(database, "DELETE", "job", *oldest):
            for _ in range(4):
                await run_maintenance_turn(process)
            assert await in_thread(count, database, "job") == 210
            # No turn in between succeeded either.
            assert [event.step for event in emitted.of(MaintenanceStepFailed)] == ["clearing finished tasks"]
            assert emitted.of(MaintenanceStepRecovered) == []
        await run_maintenance_turn(process)
        assert await in_thread(count, database, "job") == 0


@pytest.mark.only_on("postgres", "mariadb")  # SQLite has one writer at a time
async def test_clearing_that_another_process_is_doing_has_not_recovered(database: str) -> None:
    emitted = EmittedEvents()
    old = job()
    await in_thread(store_finished_jobs, database, old)
    lock = "SELECT pg_try_advisory_xact_lock(%s, %s)", [LOCK_SPACE, LOCK_ID_COUNT]
    if database == "mariadb":
        lock = "SELECT id FROM steady_queue_lockbucket WHERE id = %s FOR UPDATE", [LOCK_ID_COUNT]
    async with running(IDLE, events=emitted) as process:
        async with refusing(database, "DELETE", "job", old.id):
            await run_maintenance_turn(process)
            with held(database, lock):
                await run_maintenance_turn(process)
            assert [event.step for event in emitted.of(MaintenanceStepFailed)] == ["clearing finished tasks"]
            assert emitted.of(MaintenanceStepRecovered) == []
        await run_maintenance_turn(process)
        assert [event.step for event in emitted.of(MaintenanceStepRecovered)] == ["clearing finished tasks"]


@pytest.mark.only_on("sqlite")  # other databases store no text in a time column
async def test_an_old_task_whose_end_cannot_be_read_keeps_no_others_from_being_cleared(database: str) -> None:
    emitted = EmittedEvents()
    jobs = [job() for _ in range(9)]
    await in_thread(store_finished_jobs, database, *jobs)
    bad = jobs[0].id
    text = "UPDATE steady_queue_job SET finished_at = '2020-01-00 once' WHERE id = %s"
    await in_thread(query, database, text, bad.hex)
    async with running(IDLE, events=emitted) as process:
        await run_maintenance_turn(process)
    assert await in_thread(query, database, "SELECT id FROM steady_queue_job") == [(bad.hex,)]
    assert [event.step for event in emitted.of(MaintenanceStepFailed)] == ["clearing finished tasks"]


# -- lanes of another version -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("queues", [["*"], ["de*", "mail"]], ids=["all", "some"])
@pytest.mark.parametrize("lane", [2, 7, -3])
async def test_ready_tasks_of_an_unknown_lane_are_reported_and_delay_no_others(
    database: str, queues: list[str], lane: int
) -> None:
    emitted = EmittedEvents()
    odd = job(lane=lane, queue_name="default")
    await in_thread(lambda: SyncStore(database).enqueue(odd))
    async with running(worker(queues=queues), events=emitted) as process:
        assert await values(await recording.works.aenqueue("other")) == ["other"]
        await run_maintenance_turn(process)
    assert [(event.queue_name, event.lane) for event in emitted.of(UnknownLane)] == [("default", lane)]
    assert await in_thread(counts, database) == {"ready": 1}
