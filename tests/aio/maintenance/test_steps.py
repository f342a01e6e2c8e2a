"""Each step of maintenance by itself: a step that fails keeps no other step from its work."""

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
from steady_queue.checks.health import check_health
from steady_queue.events import (
    DatabaseLost,
    MaintenanceStepFailed,
    MaintenanceStepRecovered,
)
from steady_queue.store.job import Lane
from tests.support.databases.refuse_changes import refusing
from tests.support.databases.tables import query, row
from tests.support.maintenance import IDLE, LONG_AGO, errors_of, register_stale_process, run_maintenance_turn
from tests.support.runtime import EmittedEvents, enqueue_each, in_thread, until, worker
from tests.support.store.jobs import job, limited
from tests.support.store.stores import SyncStore
from tests.support.tasks import recording

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("no_automatic_maintenance"),
    pytest.mark.usually_on("postgres", "mariadb", "sqlite"),
]


class PendingWork:
    """Work for each step of a turn of maintenance."""

    def __init__(self) -> None:
        self.dead = job(lane=Lane.THREAD, queue_name="dead")
        self.orphan = job(lane=Lane.THREAD, queue_name="orphan")
        self.ownerless = limited("ownerless")
        self.overrun = limited("overrun", overrun_after=1, queue_name="overrun")
        self.blocked = [limited("blocked"), limited("blocked")]
        self.finished = job(queue_name="finished")
        self.failed = job(queue_name="failed")

    def store(self, alias: str) -> None:
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

    def remaining_steps(self, alias: str) -> set[str]:
        """The names of the steps whose work is not done."""
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

    def find_row_to_refuse(self, step: str) -> tuple[Literal["DELETE"], str, NewJob]:
        """The change that the database must refuse so that the step fails."""
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
async def test_a_step_that_fails_is_reported_with_its_name_and_keeps_no_other_from_being_done(
    database: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted, pending = EmittedEvents(), PendingWork()
    await in_thread(pending.store, database)
    change, table, refused = pending.find_row_to_refuse(step)
    async with running(IDLE, events=emitted) as process:
        async with refusing(database, change, table, refused.id):
            await run_maintenance_turn(process)
            assert await in_thread(pending.remaining_steps, database) == {step}
            await run_maintenance_turn(process)
            (failure,) = emitted.of(MaintenanceStepFailed)
            assert (failure.step, failure.times) == (step, 1)
            assert "refused by a test" in failure.error
            # Another process can see it, because it is stored in the row.
            lines = [line for line in (await in_thread(check_health)).lines if "maintenance" in line]
            assert len(lines) == 1
            assert f"{process.name}: maintenance: {step} has failed 2 times since 20" in lines[0]
            assert "refused by a test" in lines[0]
            monkeypatch.setattr(steps, "REPEAT_SECONDS", 0)
            await run_maintenance_turn(process)
            assert [event.times for event in emitted.of(MaintenanceStepFailed)] == [1, 3]
        await run_maintenance_turn(process)
        assert await in_thread(pending.remaining_steps, database) == set()
        (recovery,) = emitted.of(MaintenanceStepRecovered)
        assert (recovery.step, recovery.times) == (step, 3)
        assert not [line for line in (await in_thread(check_health)).lines if "maintenance" in line]
    assert emitted.of(DatabaseLost) == []


@pytest.mark.usefixtures("_short_spans")
async def test_a_step_that_takes_too_long_is_not_a_lost_database_while_other_statements_succeed(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = EmittedEvents()
    async with running(IDLE, events=emitted) as process:
        with monkeypatch.context() as patch:
            patch.setattr(steps, "STEP_TIMEOUT_SECONDS", 0)
            await run_maintenance_turn(process)
        failed = emitted.of(MaintenanceStepFailed)
        assert {"reconciling claims", "looking for work", *STEPS} <= {event.step for event in failed}
        assert all("no reply within" in event.error for event in failed)
        await run_maintenance_turn(process)
        # A step that runs once a minute is not due yet.
        now_and_then = "looking for tasks that no process serves"
        recovered = {event.step for event in emitted.of(MaintenanceStepRecovered)}
        assert recovered == {event.step for event in failed} - {now_and_then}
    assert emitted.of(DatabaseLost) == []


async def test_a_step_that_is_skipped_has_not_recovered(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emitted = EmittedEvents()
    (bad,) = await enqueue_each(recording.works, range(1))
    await in_thread(register_stale_process, database)
    async with running(IDLE, events=emitted) as process:
        async with refusing(database, "DELETE", "claimedexecution", UUID(bad.id)):
            await run_maintenance_turn(process)
            assert [event.step for event in emitted.of(MaintenanceStepFailed)] == ["pruning"]
            with monkeypatch.context() as patch:
                # As after a late heartbeat: this process may prune no others for a while.
                patch.setattr(process.services.heartbeat, "_steady_since", math.inf)
                await process.services.maintenance.turn()
            assert emitted.of(MaintenanceStepRecovered) == []
            assert [line for line in (await in_thread(check_health)).lines if "maintenance: pruning has failed" in line]
        await run_maintenance_turn(process)
        assert [event.step for event in emitted.of(MaintenanceStepRecovered)] == ["pruning"]


async def test_a_failing_step_does_not_change_the_result_of_the_health_check(database: str) -> None:
    async with running(worker()) as process:
        await until(lambda: process.services.heartbeat._has_written_poll)

        async def fails() -> None:
            raise RuntimeError("on\npurpose")

        await process.services.maintenance._steps.run("a step", fails)
        found = await in_thread(check_health)
        assert found.healthy
        assert found.lines[-1].endswith(": builtins.RuntimeError: on purpose")
        row_ = await in_thread(row, database, "process", process.id, "id")
        assert json.loads(row_["metadata"])["actors"][0]["kind"] == "worker"  # type: ignore[index]


@pytest.mark.parametrize("metadata", ['{"maintenance": null}', '{"maintenance": [1]}', '{"maintenance": {"x": 1}}'])
async def test_foreign_metadata_about_maintenance_does_not_break_the_health_check(database: str, metadata: str) -> None:
    async with running(worker()) as process:
        await until(lambda: process.services.heartbeat._has_written_poll)
        await in_thread(query, database, "UPDATE steady_queue_process SET metadata = %s", metadata)
        assert len((await in_thread(check_health)).lines) == 1


async def test_a_number_that_cannot_be_converted_to_a_time_does_not_stop_maintenance(database: str) -> None:
    result = await recording.works.aenqueue("orphan")
    emitted = EmittedEvents()

    def prepare() -> None:
        store = SyncStore(database)
        assert store.claim(store.worker("gone"), lane=Lane.THREAD)
        query(database, "DELETE FROM steady_queue_process")
        store.claimed(limited(overrun_after=2**63 - 1))

    await in_thread(prepare)
    async with running(IDLE, events=emitted) as process:
        await run_maintenance_turn(process)
    assert await errors_of(result) == ["steady_queue.processes.ProcessMissingError"]
    assert emitted.of(MaintenanceStepFailed) == []
