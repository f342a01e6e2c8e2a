"""A claim that the database refuses to change keeps no other claim and no other step of maintenance from being done."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.aio.maintenance.batch_splitting import ClaimSplitter
from steady_queue.db.aliases import open_async
from steady_queue.events import (
    ClaimsReconciled,
    JobSetAside,
    JobsFailed,
    MaintenanceStepFailed,
    MaintenanceStepRecovered,
    OrphansFailed,
    ProcessDeregistered,
    ProcessDeregistrationFailed,
    ProcessPruned,
)
from steady_queue.processes import ProcessExitError
from steady_queue.store.job import Lane
from steady_queue.store.operations.processes import lost_claims
from steady_queue.store.operations.processes.lost_claims import SettledClaims
from steady_queue.store.outcome import report
from tests.shop.tasks import charge
from tests.support.databases.refuse_changes import refusing
from tests.support.databases.tables import count, counts, query, row
from tests.support.maintenance import IDLE, PRUNED, REFUSED, errors_of, register_stale_process, run_maintenance_turn
from tests.support.runtime import EmittedEvents, enqueue_each, in_thread, until, values, worker
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("no_automatic_maintenance"),
    pytest.mark.usually_on("postgres", "mariadb", "sqlite"),
]

MAX_ATTEMPTS = 2_147_483_647


async def test_a_dead_process_is_pruned_although_attempts_of_a_task_cannot_be_counted_any_further(
    database: str,
) -> None:
    results = await enqueue_each(recording.works, range(5))
    text = f"UPDATE steady_queue_job SET attempts = {MAX_ATTEMPTS}, worker_ids = 'another' WHERE id = %s"
    bad = UUID(results[2].id)
    await in_thread(query, database, text, bad if database == "postgres" else bad.hex)
    await in_thread(register_stale_process, database)
    async with running(IDLE) as process:
        await run_maintenance_turn(process)
    assert await errors_of(*results) == [PRUNED] * 5
    assert await in_thread(counts, database) == {"failed": 5}
    assert (await in_thread(row, database, "job", bad, "id"))["attempts"] == MAX_ATTEMPTS  # type: ignore[index]
    assert await in_thread(count, database, "process") == 0


@pytest.mark.parametrize("is_orphaned", [False, True], ids=["pruned", "orphaned"])
async def test_a_claim_that_cannot_be_ended_is_set_aside_and_the_others_of_its_process_fail_as_usual(
    database: str, is_orphaned: bool
) -> None:
    emitted = EmittedEvents()
    results = [await charge.aenqueue(number) for number in range(6)]
    bad = UUID(results[3].id)
    process_id = await in_thread(register_stale_process, database)
    waits = await charge.aenqueue(3)
    if is_orphaned:
        await in_thread(query, database, "DELETE FROM steady_queue_process")
    async with refusing(database, "UPDATE", "job", bad), running(worker(), events=emitted) as process:
        await run_maintenance_turn(process)
        assert await values(waits) == [None]  # its slot was freed
    why = "steady_queue.processes.ProcessMissingError" if is_orphaned else PRUNED
    good = [result for result in results if UUID(result.id) != bad]
    assert await errors_of(*good) == [why] * 5
    found = await in_thread(row, database, "failedexecution", bad)
    assert found is not None
    assert found["exception_class"] == REFUSED
    assert "refused by a test" in found["message"]
    assert await in_thread(count, database, "process") == 0
    assert [event.job_id for event in emitted.of(JobSetAside)] == [bad]
    assert sum(event.count for event in emitted.of(JobsFailed)) == 6
    reported = [event.jobs for event in emitted.of(OrphansFailed)]
    assert reported == ([6] if is_orphaned else [])
    assert [event.process_id for event in emitted.of(ProcessPruned)] == ([] if is_orphaned else [process_id])
    assert emitted.of(MaintenanceStepFailed) == []


async def test_a_claim_that_is_set_aside_has_its_reason_in_the_result_if_the_row_can_be_written(database: str) -> None:
    good, bad = await charge.aenqueue("ada"), await charge.aenqueue("alan")
    waits = await charge.aenqueue("alan")
    await in_thread(register_stale_process, database)
    # The claim cannot be ended as usual because the next of its key cannot be made ready.
    async with refusing(database, "INSERT", "readyexecution", UUID(waits.id)), running(IDLE) as process:
        await run_maintenance_turn(process)
    assert await errors_of(good, bad, waits) == [PRUNED, REFUSED, REFUSED]
    assert "was last alive at" in bad.errors[0].traceback
    assert await in_thread(counts, database) == {"failed": 3}


async def test_a_claim_of_its_own_that_cannot_be_released_is_set_aside(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(queues=["mail"]), events=emitted) as process:
        results = await enqueue_each(recording.works, range(4))
        await in_thread(lambda: SyncStore(database).claim(process.id, 4, lane=Lane.THREAD))
        # It has a ready row besides its claim, so it cannot be made ready.
        bad = UUID(results[1].id)
        columns = "queue_name, lane, priority"
        await in_thread(
            query,
            database,
            f"INSERT INTO steady_queue_readyexecution (job_id, {columns})"
            f" SELECT id, {columns} FROM steady_queue_job WHERE id = %s",
            bad if database == "postgres" else bad.hex,
        )
        await process.services.maintenance.turn()
        assert await in_thread(counts, database) == {"ready": 4}
        assert [event.count for event in emitted.of(ClaimsReconciled)] == [4]
        assert [event.job_id for event in emitted.of(JobSetAside)] == [bad]
    async with running(worker()):
        assert await values(*results) == [0, 1, 2, 3]


async def test_a_claim_that_cannot_even_be_set_aside_keeps_no_other_from_being_released(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(queues=["mail"]), events=emitted) as process:
        results = await enqueue_each(recording.works, range(4))
        await in_thread(lambda: SyncStore(database).claim(process.id, 4, lane=Lane.THREAD))
        async with refusing(database, "DELETE", "claimedexecution", UUID(results[0].id)):
            await process.services.maintenance.turn()
            assert await in_thread(counts, database) == {"ready": 3, "claimed": 1}
            assert [event.step for event in emitted.of(MaintenanceStepFailed)] == ["reconciling claims"]
        await process.services.maintenance.turn()
        assert await in_thread(counts, database) == {"ready": 4}
        assert [event.step for event in emitted.of(MaintenanceStepRecovered)] == ["reconciling claims"]


@pytest.mark.only_on("sqlite")  # other databases store no text in a time column
async def test_a_claim_that_cannot_be_read_is_set_aside(database: str) -> None:
    emitted = EmittedEvents()
    results = await enqueue_each(recording.works, range(3))
    await in_thread(register_stale_process, database)
    bad = UUID(results[1].id)
    text = "UPDATE steady_queue_claimedexecution SET claimed_at = 'yesterday' WHERE job_id = %s"
    await in_thread(query, database, text, bad.hex)
    async with running(IDLE, events=emitted) as process:
        await run_maintenance_turn(process)
    assert await errors_of(*results) == [PRUNED, REFUSED, PRUNED]
    assert await in_thread(count, database, "process") == 0
    assert emitted.of(MaintenanceStepFailed) == []


def _claimed(alias: str, jobs: list[NewJob]) -> tuple[UUID, list[UUID]]:
    """A process, and its claims of these jobs."""
    store = SyncStore(alias)
    process_id = store.worker()
    store.enqueue(*jobs)
    return process_id, [claim.claim_id for claim in store.claim(process_id, len(jobs), lane=Lane.THREAD)]


async def test_the_claims_of_an_ended_process_are_released_or_fail_except_for_the_refused_one(database: str) -> None:
    """A supervisor ends the claims of its children like this, and a process that stops its own."""
    jobs = [job(lane=Lane.THREAD) for _ in range(5)]

    process_id, claims = await in_thread(_claimed, database, jobs)
    emitted = EmittedEvents()
    driver = open_async(database, size=1)
    splitter = ClaimSplitter(driver=driver, events=emitted)
    async with refusing(database, "UPDATE", "job", jobs[2].id):
        settled, refusal = await splitter.end_process(process_id, "child", report(ProcessExitError, "died"), claims[3:])
    await driver.close()
    assert refusal is None
    assert set(settled.failed) == {job.id for job in jobs[:3]}
    assert set(settled.released) == {job.id for job in jobs[3:]}
    assert [event.job_id for event in emitted.of(JobSetAside)] == [jobs[2].id]
    assert await in_thread(counts, database) == {"failed": 3, "ready": 2}
    assert await in_thread(count, database, "process") == 0


async def test_the_other_claims_of_a_process_are_ended_although_one_cannot_even_be_set_aside(database: str) -> None:
    jobs = [job(lane=Lane.THREAD) for _ in range(5)]

    process_id, claims = await in_thread(_claimed, database, jobs)
    driver = open_async(database, size=1)
    splitter = ClaimSplitter(driver=driver, events=EmittedEvents())
    async with refusing(database, "DELETE", "claimedexecution", jobs[2].id):
        settled, refusal = await splitter.end_process(process_id, "child", report(ProcessExitError, "died"), claims[3:])
    await driver.close()
    assert "refused by a test" in str(refusal)
    assert set(settled.failed) == {job.id for job in jobs[:2]}
    assert set(settled.released) == {job.id for job in jobs[3:]}
    assert await in_thread(counts, database) == {"failed": 2, "ready": 2, "claimed": 1}
    assert await in_thread(count, database, "process") == 1


async def test_a_process_that_stops_fails_what_still_runs_although_another_claim_cannot_be_released(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=0.3))
    emitted = EmittedEvents()
    unknown = job(lane=Lane.THREAD, queue_name="mail")

    def claim_unknown(process_id: UUID) -> None:
        store = SyncStore(database)
        store.enqueue(unknown)
        assert store.claim(process_id, 1, lane=Lane.THREAD, queues=["mail"])

    async with refusing(database, "DELETE", "claimedexecution", unknown.id):
        async with running(worker(queues=["default"]), events=emitted) as process:
            runs = await recording.blocks.aenqueue("never ends")
            await until(lambda: sum(task_record.running.values()) == 1)
            await in_thread(claim_unknown, process.id)
        assert await errors_of(runs) == ["steady_queue.processes.ProcessExitError"]
        assert await in_thread(counts, database) == {"failed": 1, "claimed": 1}
    assert [list(event.job_ids) for event in emitted.of(JobsFailed)] == [[UUID(runs.id)]]
    assert [event.step for event in emitted.of(MaintenanceStepFailed)] == ["reconciling claims"]
    (failure,) = emitted.of(ProcessDeregistrationFailed)
    assert "refused by a test" in failure.error
    assert emitted.of(ProcessDeregistered) == []


@pytest.mark.parametrize("is_orphaned", [False, True], ids=["pruned", "orphaned"])
async def test_an_error_of_our_own_code_sets_no_task_aside(
    database: str, is_orphaned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = EmittedEvents()
    await enqueue_each(recording.works, range(3))
    await in_thread(register_stale_process, database)
    if is_orphaned:
        await in_thread(query, database, "DELETE FROM steady_queue_process")
    async with running(IDLE, events=emitted) as process:
        with monkeypatch.context() as patch:
            patch.setattr(lost_claims, "settle", lambda: None)  # it takes more arguments: a TypeError
            await run_maintenance_turn(process)
        assert emitted.of(JobSetAside) == []
        assert await in_thread(counts, database) == {"claimed": 3}
        step = "failing orphans" if is_orphaned else "pruning"
        assert [event.step for event in emitted.of(MaintenanceStepFailed)] == [step]


async def test_a_process_whose_heartbeat_returns_keeps_the_claims_that_were_not_ended_yet(database: str) -> None:
    """A process is taken for dead, and sends a heartbeat while its claims are ended one by one."""
    from steady_queue.store.operations.maintenance.set_aside import ClaimOwner, end_claims, set_aside

    await enqueue_each(recording.works, range(2))

    def claimed() -> tuple[SyncStore, UUID, dict[UUID, UUID]]:
        store = SyncStore(database)
        process_id = store.worker()
        return store, process_id, {c.claim_id: c.job_id for c in store.claim(process_id, 2, lane=Lane.THREAD)}

    def check() -> None:
        store, process_id, claims = claimed()
        owner = ClaimOwner("other", process_id, timedelta(minutes=5))
        error = report(ProcessExitError, "died")
        assert store.run(end_claims(store.sql, owner, claims, error)) == SettledClaims()
        for claim in claims.items():
            assert not store.run(set_aside(store.sql, owner, *claim, error, writes_errors=True))
        orphaned = ClaimOwner("unknown")
        assert store.run(end_claims(store.sql, orphaned, claims, error)) == SettledClaims()
        for claim in claims.items():
            assert not store.run(set_aside(store.sql, orphaned, *claim, error, writes_errors=True))
        assert counts(database) == {"claimed": 2}

    await in_thread(check)
