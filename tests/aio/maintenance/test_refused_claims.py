"""A row that the database refuses to change holds up no other: neither its neighbours nor the other steps of a turn."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from uuid import UUID

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.aio.maintenance import steps
from steady_queue.aio.maintenance.splitting import ClaimSplitter
from steady_queue.checks.health import check_health
from steady_queue.db.aliases import open_async
from steady_queue.events import (
    ClaimsReconciled,
    DatabaseLost,
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
from steady_queue.store.operations import prune
from steady_queue.store.operations import set_aside as set_aside_module
from steady_queue.store.outcome import report
from tests.shop.tasks import charge
from tests.support.databases.refuse_changes import refusing
from tests.support.databases.tables import count, counts, query, row
from tests.support.maintenance import IDLE, LONG_AGO, PRUNED, REFUSED, errors_of, silent, turn
from tests.support.runtime import Heard, aside, enqueued, until, values, worker
from tests.support.store.jobs import job, limited
from tests.support.store.stores import SyncStore
from tests.support.tasks import recording
from tests.support.tasks.recording import book

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("no_automatic_maintenance"),
    pytest.mark.usually_on("postgres", "mariadb", "sqlite"),
]

MOST = 2_147_483_647


# -- bad claims -------------------------------------------------------------------------------------------------------


async def test_a_dead_process_is_pruned_although_attempts_of_a_task_cannot_be_counted_any_further(
    database: str,
) -> None:
    results = await enqueued(recording.works, range(5))
    text = f"UPDATE steady_queue_job SET attempts = {MOST}, worker_ids = 'another' WHERE id = %s"
    bad = UUID(results[2].id)
    await aside(query, database, text, bad if database == "postgres" else bad.hex)
    await aside(silent, database)
    async with running(IDLE) as process:
        await turn(process)
    assert await errors_of(*results) == [PRUNED] * 5
    assert await aside(counts, database) == {"failed": 5}
    assert (await aside(row, database, "job", bad, "id"))["attempts"] == MOST  # type: ignore[index]
    assert await aside(count, database, "process") == 0


@pytest.mark.parametrize("is_orphaned", [False, True], ids=["pruned", "orphaned"])
async def test_a_claim_that_cannot_be_ended_is_set_aside_and_the_others_of_its_process_fail_as_usual(
    database: str, is_orphaned: bool
) -> None:
    heard = Heard()
    results = [await charge.aenqueue(number) for number in range(6)]
    bad = UUID(results[3].id)
    process_id = await aside(silent, database)
    waits = await charge.aenqueue(3)
    if is_orphaned:
        await aside(query, database, "DELETE FROM steady_queue_process")
    async with refusing(database, "UPDATE", "job", bad), running(worker(), events=heard) as process:
        await turn(process)
        assert await values(waits) == [None]  # its slot was freed
    why = "steady_queue.processes.ProcessMissingError" if is_orphaned else PRUNED
    good = [result for result in results if UUID(result.id) != bad]
    assert await errors_of(*good) == [why] * 5
    found = await aside(row, database, "failedexecution", bad)
    assert found is not None
    assert found["exception_class"] == REFUSED
    assert "refused by a test" in found["message"]
    assert await aside(count, database, "process") == 0
    assert [event.job_id for event in heard.of(JobSetAside)] == [bad]
    assert sum(event.count for event in heard.of(JobsFailed)) == 6
    told = [event.jobs for event in heard.of(OrphansFailed)]
    assert told == ([6] if is_orphaned else [])
    assert [event.process_id for event in heard.of(ProcessPruned)] == ([] if is_orphaned else [process_id])
    assert heard.of(MaintenanceStepFailed) == []


async def test_what_is_set_aside_tells_its_reason_in_its_result_if_its_row_can_be_written(database: str) -> None:
    good, bad = await charge.aenqueue("ada"), await charge.aenqueue("alan")
    waits = await charge.aenqueue("alan")
    await aside(silent, database)
    # The claim cannot be ended as usual because the next of its key cannot be made ready.
    async with refusing(database, "INSERT", "readyexecution", UUID(waits.id)), running(IDLE) as process:
        await turn(process)
    assert await errors_of(good, bad, waits) == [PRUNED, REFUSED, REFUSED]
    assert "was last alive at" in bad.errors[0].traceback
    assert await aside(counts, database) == {"failed": 3}


async def test_a_claim_of_its_own_that_cannot_be_given_back_is_set_aside(database: str) -> None:
    heard = Heard()
    async with running(worker(queues=["mail"]), events=heard) as process:
        results = await enqueued(recording.works, range(4))
        await aside(lambda: SyncStore(database).claim(process.id, 4, lane=Lane.THREAD))
        # It is ready beside its claim, so it cannot be made ready.
        bad = UUID(results[1].id)
        columns = "queue_name, lane, priority"
        await aside(
            query,
            database,
            f"INSERT INTO steady_queue_readyexecution (job_id, {columns})"
            f" SELECT id, {columns} FROM steady_queue_job WHERE id = %s",
            bad if database == "postgres" else bad.hex,
        )
        await process.services.maintenance.turn()
        assert await aside(counts, database) == {"ready": 4}
        assert [event.count for event in heard.of(ClaimsReconciled)] == [4]
        assert [event.job_id for event in heard.of(JobSetAside)] == [bad]
    async with running(worker()):
        assert await values(*results) == [0, 1, 2, 3]


async def test_a_claim_that_cannot_even_be_set_aside_keeps_no_other_from_being_given_back(database: str) -> None:
    heard = Heard()
    async with running(worker(queues=["mail"]), events=heard) as process:
        results = await enqueued(recording.works, range(4))
        await aside(lambda: SyncStore(database).claim(process.id, 4, lane=Lane.THREAD))
        async with refusing(database, "DELETE", "claimedexecution", UUID(results[0].id)):
            await process.services.maintenance.turn()
            assert await aside(counts, database) == {"ready": 3, "claimed": 1}
            assert [event.step for event in heard.of(MaintenanceStepFailed)] == ["reconciling claims"]
        await process.services.maintenance.turn()
        assert await aside(counts, database) == {"ready": 4}
        assert [event.step for event in heard.of(MaintenanceStepRecovered)] == ["reconciling claims"]


@pytest.mark.only_on("sqlite")  # others store no text as a time
async def test_a_claim_that_cannot_be_read_is_set_aside(database: str) -> None:
    heard = Heard()
    results = await enqueued(recording.works, range(3))
    await aside(silent, database)
    bad = UUID(results[1].id)
    text = "UPDATE steady_queue_claimedexecution SET claimed_at = 'yesterday' WHERE job_id = %s"
    await aside(query, database, text, bad.hex)
    async with running(IDLE, events=heard) as process:
        await turn(process)
    assert await errors_of(*results) == [PRUNED, REFUSED, PRUNED]
    assert await aside(count, database, "process") == 0
    assert heard.of(MaintenanceStepFailed) == []


def _claimed(alias: str, jobs: list[NewJob]) -> tuple[UUID, list[UUID]]:
    """A process, and its claims of these jobs."""
    store = SyncStore(alias)
    process_id = store.worker()
    store.enqueue(*jobs)
    return process_id, [claim.claim_id for claim in store.claim(process_id, len(jobs), lane=Lane.THREAD)]


async def test_the_claims_of_an_ended_process_are_given_back_or_fail_but_for_the_bad_one(database: str) -> None:
    """What a supervisor does with those of its children, and a process that stops with its own."""
    jobs = [job(lane=Lane.THREAD) for _ in range(5)]

    process_id, claims = await aside(_claimed, database, jobs)
    heard = Heard()
    driver = open_async(database, size=1)
    splitter = ClaimSplitter(driver=driver, events=heard)
    async with refusing(database, "UPDATE", "job", jobs[2].id):
        settled, refusal = await splitter.end_process(process_id, "child", report(ProcessExitError, "died"), claims[3:])
    await driver.close()
    assert refusal is None
    assert set(settled.failed) == {job.id for job in jobs[:3]}
    assert set(settled.released) == {job.id for job in jobs[3:]}
    assert [event.job_id for event in heard.of(JobSetAside)] == [jobs[2].id]
    assert await aside(counts, database) == {"failed": 3, "ready": 2}
    assert await aside(count, database, "process") == 0


async def test_what_else_a_process_had_is_ended_although_one_claim_cannot_even_be_set_aside(database: str) -> None:
    jobs = [job(lane=Lane.THREAD) for _ in range(5)]

    process_id, claims = await aside(_claimed, database, jobs)
    driver = open_async(database, size=1)
    splitter = ClaimSplitter(driver=driver, events=Heard())
    async with refusing(database, "DELETE", "claimedexecution", jobs[2].id):
        settled, refusal = await splitter.end_process(process_id, "child", report(ProcessExitError, "died"), claims[3:])
    await driver.close()
    assert "refused by a test" in str(refusal)
    assert set(settled.failed) == {job.id for job in jobs[:2]}
    assert set(settled.released) == {job.id for job in jobs[3:]}
    assert await aside(counts, database) == {"failed": 2, "ready": 2, "claimed": 1}
    assert await aside(count, database, "process") == 1


async def test_a_process_that_stops_fails_what_still_runs_although_another_claim_cannot_be_released(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=0.3))
    heard = Heard()
    unknown = job(lane=Lane.THREAD, queue_name="mail")

    def claim_unknown(process_id: UUID) -> None:
        store = SyncStore(database)
        store.enqueue(unknown)
        assert store.claim(process_id, 1, lane=Lane.THREAD, queues=["mail"])

    async with refusing(database, "DELETE", "claimedexecution", unknown.id):
        async with running(worker(queues=["default"]), events=heard) as process:
            runs = await recording.blocks.aenqueue("never ends")
            await until(lambda: sum(book.now.values()) == 1)
            await aside(claim_unknown, process.id)
        assert await errors_of(runs) == ["steady_queue.processes.ProcessExitError"]
        assert await aside(counts, database) == {"failed": 1, "claimed": 1}
    assert [list(event.job_ids) for event in heard.of(JobsFailed)] == [[UUID(runs.id)]]
    assert [event.step for event in heard.of(MaintenanceStepFailed)] == ["reconciling claims"]
    (failure,) = heard.of(ProcessDeregistrationFailed)
    assert "refused by a test" in failure.error
    assert heard.of(ProcessDeregistered) == []


@pytest.mark.parametrize("is_orphaned", [False, True], ids=["pruned", "orphaned"])
async def test_an_error_of_our_own_code_sets_no_task_aside(
    database: str, is_orphaned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    await enqueued(recording.works, range(3))
    await aside(silent, database)
    if is_orphaned:
        await aside(query, database, "DELETE FROM steady_queue_process")
    async with running(IDLE, events=heard) as process:
        with monkeypatch.context() as patch:
            for module in (prune, set_aside_module):
                patch.setattr(module, "settle", lambda: None)  # it takes more arguments: a TypeError
            await turn(process)
        assert heard.of(JobSetAside) == []
        assert await aside(counts, database) == {"claimed": 3}
        step = "failing orphans" if is_orphaned else "pruning"
        assert [event.step for event in heard.of(MaintenanceStepFailed)] == [step]


async def test_a_process_that_beats_again_keeps_what_was_not_taken_yet(database: str) -> None:
    """A process is taken for dead, and comes back while its claims are ended in parts."""
    from steady_queue.store.operations.set_aside import ClaimOwner, end_claims, set_aside

    await enqueued(recording.works, range(2))

    def claimed() -> tuple[SyncStore, UUID, dict[UUID, UUID]]:
        store = SyncStore(database)
        process_id = store.worker()
        return store, process_id, {c.claim_id: c.job_id for c in store.claim(process_id, 2, lane=Lane.THREAD)}

    def check() -> None:
        store, process_id, claims = claimed()
        owner = ClaimOwner("other", process_id, timedelta(minutes=5))
        error = report(ProcessExitError, "died")
        assert store.run(end_claims(store.sql, owner, claims, error)) == ([], [])
        for claim in claims.items():
            assert not store.run(set_aside(store.sql, owner, *claim, error, writes_errors=True))
        orphaned = ClaimOwner("unknown")
        assert store.run(end_claims(store.sql, orphaned, claims, error)) == ([], [])
        for claim in claims.items():
            assert not store.run(set_aside(store.sql, orphaned, *claim, error, writes_errors=True))
        assert counts(database) == {"claimed": 2}

    await aside(check)


# -- each step by itself ----------------------------------------------------------------------------------------------


class World:
    """Something to do for each step of a turn."""

    def __init__(self) -> None:
        self.dead = job(lane=Lane.THREAD, queue_name="dead")
        self.orphan = job(lane=Lane.THREAD, queue_name="orphan")
        self.ownerless = limited("ownerless")
        self.overrun = limited("overrun", overrun_after=1, queue_name="overrun")
        self.blocked = [limited("blocked"), limited("blocked")]
        self.finished = job(queue_name="finished")
        self.failed = job(queue_name="failed")

    def make(self, alias: str) -> None:
        from steady_queue.models import FailedExecution, Job

        store = SyncStore(alias)
        store.enqueue(self.dead, self.orphan, self.ownerless, self.overrun, *self.blocked, self.finished, self.failed)
        silent_id = store.worker("silent")
        assert store.claim(silent_id, lane=Lane.THREAD, queues=["dead"])
        query(alias, f"UPDATE steady_queue_process SET last_heartbeat_at = '{LONG_AGO}'")
        gone_id = store.worker("gone")
        assert store.claim(gone_id, lane=Lane.THREAD, queues=["orphan"])
        store.ask("DELETE FROM steady_queue_process WHERE id = ?", gone_id)
        assert store.claim(store.worker("live"), queues=["overrun"])
        for lost in (self.ownerless, self.blocked[0]):
            store.ask("DELETE FROM steady_queue_readyexecution WHERE job_id = ?", lost.id)
            store.ask("DELETE FROM steady_queue_job WHERE id = ?", lost.id)
        store.ask("DELETE FROM steady_queue_semaphore WHERE job_id = ?", self.blocked[0].id)
        for ended_ in (self.finished, self.failed):
            store.ask("DELETE FROM steady_queue_readyexecution WHERE job_id = ?", ended_.id)
        long_ago = store.now() - timedelta(days=9)
        Job._base_manager.using(alias).filter(pk=self.finished.id).update(finished_at=long_ago)
        FailedExecution._base_manager.using(alias).create(
            job_id=self.failed.id, failed_at=long_ago, exception_class="", message=""
        )

    def left(self, alias: str) -> set[str]:
        """The steps that have something to do still."""
        waits = {
            "pruning": row(alias, "claimedexecution", self.dead.id),
            "failing orphans": row(alias, "claimedexecution", self.orphan.id),
            "freeing ownerless slots": row(alias, "semaphore", self.ownerless.id),
            "freeing overrun slots": row(alias, "semaphore", self.overrun.id),
            "promoting blocked tasks": row(alias, "blockedexecution", self.blocked[1].id),
            "clearing finished tasks": row(alias, "job", self.finished.id, "id"),
            "clearing failed tasks": row(alias, "job", self.failed.id, "id"),
        }
        return {name for name, found in waits.items() if found is not None}

    def whose(self, step: str) -> tuple[Literal["DELETE"], str, NewJob]:
        """What is refused so that a step can do nothing at all."""
        return {
            "pruning": ("DELETE", "claimedexecution", self.dead),
            "failing orphans": ("DELETE", "claimedexecution", self.orphan),
            "freeing ownerless slots": ("DELETE", "semaphore", self.ownerless),
            "freeing overrun slots": ("DELETE", "semaphore", self.overrun),
            "promoting blocked tasks": ("DELETE", "blockedexecution", self.blocked[1]),
            "clearing finished tasks": ("DELETE", "job", self.finished),
            "clearing failed tasks": ("DELETE", "job", self.failed),
        }[step]  # type: ignore[return-value]


STEPS = [
    "pruning",
    "failing orphans",
    "freeing ownerless slots",
    "freeing overrun slots",
    "promoting blocked tasks",
    "clearing finished tasks",
    "clearing failed tasks",
]


@pytest.fixture
def _short_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "default_concurrency_control_period", timedelta(microseconds=1))
    monkeypatch.setattr(steady_queue, "clear_finished_jobs_after", timedelta(days=1))
    monkeypatch.setattr(steady_queue, "clear_failed_jobs_after", timedelta(days=1))


@pytest.mark.usefixtures("_short_spans")
@pytest.mark.parametrize("step", STEPS)
async def test_a_step_that_fails_is_shown_as_what_it_is_and_keeps_no_other_from_being_done(
    database: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, world = Heard(), World()
    await aside(world.make, database)
    change, table, refused = world.whose(step)
    async with running(IDLE, events=heard) as process:
        async with refusing(database, change, table, refused.id):
            await turn(process)
            assert await aside(world.left, database) == {step}
            await turn(process)
            (failure,) = heard.of(MaintenanceStepFailed)
            assert (failure.step, failure.times) == (step, 1)
            assert "refused by a test" in failure.error
            # Another process sees it, by the rows alone.
            lines = [line for line in (await aside(check_health)).lines if "maintenance" in line]
            assert len(lines) == 1
            assert f"{process.name}: maintenance: {step} has failed 2 times since 20" in lines[0]
            assert "refused by a test" in lines[0]
            monkeypatch.setattr(steps, "REPEAT_SECONDS", 0)
            await turn(process)
            assert [event.times for event in heard.of(MaintenanceStepFailed)] == [1, 3]
        await turn(process)
        assert await aside(world.left, database) == set()
        (recovery,) = heard.of(MaintenanceStepRecovered)
        assert (recovery.step, recovery.times) == (step, 3)
        assert not [line for line in (await aside(check_health)).lines if "maintenance" in line]
    assert heard.of(DatabaseLost) == []


@pytest.mark.usefixtures("_short_spans")
async def test_a_step_that_takes_too_long_is_no_lost_database_while_others_are_answered(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    async with running(IDLE, events=heard) as process:
        with monkeypatch.context() as patch:
            patch.setattr(steps, "STEP_TIMEOUT_SECONDS", 0)
            await turn(process)
        failed = heard.of(MaintenanceStepFailed)
        assert {"reconciling claims", "looking for work", *STEPS} <= {event.step for event in failed}
        assert all("no answer within" in event.error for event in failed)
        await turn(process)
        # What is looked for once a minute is not due yet.
        now_and_then = "looking for tasks that no process serves"
        recovered = {event.step for event in heard.of(MaintenanceStepRecovered)}
        assert recovered == {event.step for event in failed} - {now_and_then}
    assert heard.of(DatabaseLost) == []


async def test_a_step_that_is_skipped_has_not_recovered(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    (bad,) = await enqueued(recording.works, range(1))
    await aside(silent, database)
    async with running(IDLE, events=heard) as process:
        async with refusing(database, "DELETE", "claimedexecution", UUID(bad.id)):
            await turn(process)
            assert [event.step for event in heard.of(MaintenanceStepFailed)] == ["pruning"]
            with monkeypatch.context() as patch:
                # As after a late heartbeat: this process may prune no others for a while.
                patch.setattr(process.services.heartbeat, "_steady_since", math.inf)
                await process.services.maintenance.turn()
            assert heard.of(MaintenanceStepRecovered) == []
            assert [line for line in (await aside(check_health)).lines if "maintenance: pruning has failed" in line]
        await turn(process)
        assert [event.step for event in heard.of(MaintenanceStepRecovered)] == ["pruning"]


async def test_a_failing_step_changes_no_judgement_of_health(database: str) -> None:
    async with running(worker()) as process:
        await until(lambda: process.services.heartbeat._has_written_poll)

        async def fails() -> None:
            raise RuntimeError("on\npurpose")

        await process.services.maintenance._steps.run("a step", fails)
        found = await aside(check_health)
        assert found.healthy
        assert found.lines[-1].endswith(": builtins.RuntimeError: on purpose")
        row_ = await aside(row, database, "process", process.id, "id")
        assert json.loads(row_["metadata"])["actors"][0]["kind"] == "worker"  # type: ignore[index]


@pytest.mark.parametrize("metadata", ['{"maintenance": null}', '{"maintenance": [1]}', '{"maintenance": {"x": 1}}'])
async def test_what_another_wrote_about_maintenance_harms_no_probe(database: str, metadata: str) -> None:
    async with running(worker()) as process:
        await until(lambda: process.services.heartbeat._has_written_poll)
        await aside(query, database, "UPDATE steady_queue_process SET metadata = %s", metadata)
        assert len((await aside(check_health)).lines) == 1


async def test_a_number_that_no_time_can_be_made_of_keeps_maintenance_from_nothing(database: str) -> None:
    result = await recording.works.aenqueue("orphan")
    heard = Heard()

    def prepare() -> None:
        store = SyncStore(database)
        assert store.claim(store.worker("gone"), lane=Lane.THREAD)
        query(database, "DELETE FROM steady_queue_process")
        store.claimed(limited(overrun_after=2**63 - 1))

    await aside(prepare)
    async with running(IDLE, events=heard) as process:
        await turn(process)
    assert await errors_of(result) == ["steady_queue.processes.ProcessMissingError"]
    assert heard.of(MaintenanceStepFailed) == []
