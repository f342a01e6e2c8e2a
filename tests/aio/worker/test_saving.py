"""Metadata and checkpoints: stored at once, read by the next attempt, and never written by a task without its claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import SteadyQueueResult, SteadyQueueTask
from steady_queue.aio import running
from tests.support.databases.tables import query
from tests.support.runtime import error_of, in_thread, until, values, wait_for_results, worker
from tests.support.tasks import reporting
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]


@pytest.mark.parametrize("task", [reporting.changes_metadata, reporting.changes_metadata_in_thread])
async def test_a_task_reads_and_stores_its_metadata(database: str, task: SteadyQueueTask[..., Any]) -> None:
    async with running(worker()):
        result = await task.using(metadata={"tenant": "ä", "n": 1}).aenqueue("n", [2])
        assert isinstance(result, SteadyQueueResult)
        assert result.metadata == {"tenant": "ä", "n": 1}
        assert await values(result) == [{"tenant": "ä", "n": 1}]
        assert result.metadata == {"tenant": "ä", "n": [2]}


@pytest.mark.parametrize(
    "task", [reporting.fails_after_checkpoint, reporting.is_interrupted_after_checkpoint_in_thread]
)
async def test_the_next_attempt_has_what_the_last_one_saved(database: str, task: Task[..., Any]) -> None:
    saved = {"row": 7, "names": ["ä"]}
    async with running(worker()):
        assert await values(await task.aenqueue()) == [[saved, saved]]


async def test_a_checkpoint_in_a_transaction_is_rolled_back_with_it(database: str) -> None:
    async with running(worker()):
        assert await values(await reporting.rolls_back_its_checkpoint.aenqueue()) == ["committed"]


@pytest.mark.parametrize("task", [reporting.saves_when_opened, reporting.saves_when_opened_async])
async def test_a_task_that_has_lost_its_claim_cannot_save(database: str, task: Task[..., Any]) -> None:
    async with running(worker()) as process:
        result = await task.aenqueue()
        await until(lambda: "saves_when_opened" in task_record.began)
        # Another process has pruned this one, and someone has retried the task.
        await in_thread(query, database, "UPDATE steady_queue_claimedexecution SET claim_id = job_id")
        task_record.gate.set()
        task_record.wake_event.set()
        await until(lambda: not process.services.claims.known())
        (row,) = await in_thread(query, database, "SELECT saved, errors, last_claim_id FROM steady_queue_job")
        assert row == (None, None, None)
        await in_thread(query, database, "DELETE FROM steady_queue_claimedexecution")
        await in_thread(query, database, "UPDATE steady_queue_job SET finished_at = enqueued_at")
        await result.arefresh()


@pytest.mark.usually_on("sqlite")
async def test_async_code_is_referred_to_the_async_form(database: str) -> None:
    async with running(worker()):
        result = await reporting.saves_in_sync_form.aenqueue()
        await wait_for_results(result)
    assert error_of(result) == "django.core.exceptions.SynchronousOnlyOperation"
    assert "await context.acheckpoint(...)" in result.errors[0].traceback
