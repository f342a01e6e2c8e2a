"""Expiry in a running process: what comes too late is not started, in either lane, and is reported."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from steady_queue.aio import running
from steady_queue.events import Event, JobFailed, JobsExpired
from steady_queue.models import Expiry, Job
from tests.shop.tasks import add, greet
from tests.support.databases.tables import count, counts
from tests.support.maintenance import IDLE
from tests.support.runtime import EmittedEvents, error_of, in_thread, values, wait_for_results, worker

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult
    from steady_queue.jobs.definition.task import SteadyQueueTask

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

EXPIRED = "steady_queue.errors.TaskExpired"


def state_of(result: TaskResult[Any]) -> str:
    return str(result.state)  # type: ignore[attr-defined]


def past_expiry(alias: str, *ids: str) -> None:
    Job.objects.using(alias).filter(pk__in=ids).update(expires_at=timezone.now() - timedelta(hours=1))


@pytest.mark.parametrize(("task", "argument", "value"), [(add, 1, 1), (greet, "Ada", "Hello, Ada!")])
async def test_t5_r9_a_task_that_is_claimed_too_late_is_not_started(
    database: str, task: SteadyQueueTask[..., Any], argument: Any, value: Any
) -> None:
    late = await task.using(expires_after=60).aenqueue(argument)
    timely = await task.using(expires_after=60).aenqueue(argument)
    await in_thread(past_expiry, database, late.id)
    events = EmittedEvents()
    async with running(worker(), events=events):
        assert await values(timely) == [value]
        await wait_for_results(late)
    assert (error_of(late), state_of(late), late.attempts, late.worker_ids) == (EXPIRED, "expired", 0, [])
    assert not events.of(JobFailed)
    assert await in_thread(counts, database) == {"failed": 1}


async def test_maintenance_ends_what_waits_and_reports_it_once(database: str) -> None:
    far = timezone.now() + timedelta(days=2)
    late = [
        await add.using(expires_after=60).aenqueue(1),
        await add.using(run_after=far - timedelta(days=1), expires_at=far).aenqueue(2),
    ]
    ids = [result.id for result in late]
    await in_thread(past_expiry, database, *ids)
    await in_thread(_past_rows, database)
    events = EmittedEvents()
    async with running(IDLE, events=events) as process:
        for _ in range(2):
            await process.services.maintenance.turn()
    await wait_for_results(*late)
    assert [state_of(result) for result in late] == ["expired", "expired"]
    reported: list[Event] = [*events.of(JobsExpired)]
    assert sorted(str(id_) for event in events.of(JobsExpired) for id_ in event.job_ids) == sorted(ids)
    assert [event.message() for event in reported] == ["2 jobs expired: not started in time"]
    assert await in_thread(count, database, "expiry") == 0


def _past_rows(alias: str) -> None:
    Expiry.objects.using(alias).update(expires_at=timezone.now() - timedelta(hours=1))
