"""The seed's "Installation" and "Usage": each example, enqueued and run."""

# mypy: disable-error-code="attr-defined"

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.core.checks import run_checks
from django.test import override_settings
from django.utils import timezone

from steady_queue.aio import running
from steady_queue.arguments import DeserializationError
from steady_queue.backend import SteadyQueueBackend
from steady_queue.jobs.compat import FRAMEWORK, InvalidTask, TaskResultStatus, task_backends
from steady_queue.models import Job
from steady_queue.testing import run_pending
from tests.contract.examples import greet, keep, kept, tralalero
from tests.shop.models import Customer
from tests.support.databases.tables import counts
from tests.support.runtime import wait_for_results, worker

if TYPE_CHECKING:
    Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.contract

TASKS = {
    "default": {
        "BACKEND": "steady_queue.backend.SteadyQueueBackend",
        "QUEUES": ["default"],
        "OPTIONS": {},
    }
}


def test_installation_the_setting_tasks(database: str) -> None:
    """Step 3: `TASKS = {...}`."""
    with override_settings(TASKS=TASKS):
        backend = task_backends["default"]
        assert type(backend) is SteadyQueueBackend
        assert backend.queues == {"default"}
        assert [
            message for message in run_checks(databases=[database]) if str(message.id).startswith("steady_queue.")
        ] == []
        greet.enqueue("World")
        (result,) = run_pending()
    assert result.status == TaskResultStatus.SUCCESSFUL


def test_usage_a_task_is_a_decorated_function(database: str, capsys: Capture) -> None:
    """`@task() def greet(name, times=1)`: it can still be called, and has the defaults that are named later."""
    greet.call("Ada")
    assert capsys.readouterr().out == "Hello, Ada\n"
    assert (greet.priority, greet.queue_name, greet.backend) == (0, "default", "default")


def test_usage_enqueueing(database: str, capsys: Capture) -> None:
    """`greet.enqueue('World', 4)`."""
    result = greet.enqueue("World", 4)
    assert counts(database) == {"ready": 1}
    (done,) = run_pending()
    assert (done.id, done.status) == (result.id, TaskResultStatus.SUCCESSFUL)
    assert capsys.readouterr().out == "Hello, World\n" * 4


@pytest.mark.anyio
async def test_usage_enqueueing_for_a_worker(database: str, capsys: Capture) -> None:
    """The same, run by the runtime."""
    async with running(worker()):
        (done,) = await wait_for_results(await greet.aenqueue("World", 4))
    assert done.status == TaskResultStatus.SUCCESSFUL
    assert capsys.readouterr().out == "Hello, World\n" * 4


def test_configuring_a_task_by_its_decorator(database: str, capsys: Capture) -> None:
    """`@task(priority=10, queue_name='real_time', backend='steady_queue')`."""
    result = tralalero.enqueue()
    job = Job.objects.get(pk=result.id)
    assert (job.priority, job.queue_name, job.backend) == (10, "real_time", "steady_queue")
    run_pending(queues="real_time", raising=True)
    assert capsys.readouterr().out == "tralala\n"


def test_configuring_a_task_at_runtime(database: str, capsys: Capture) -> None:
    """`tralalero.using(priority=9, queue_name='low_importance').enqueue()`."""
    result = tralalero.using(priority=9, queue_name="low_importance").enqueue()
    job = Job.objects.get(pk=result.id)
    assert (job.priority, job.queue_name, job.backend) == (9, "low_importance", "steady_queue")
    assert (tralalero.priority, tralalero.queue_name) == (10, "real_time")
    run_pending(queues="low_importance", raising=True)
    assert capsys.readouterr().out == "tralala\n"


def test_configuring_the_larger_priority_runs_first(database: str) -> None:
    """`priority`: the seed said that the smaller value is the more important one; Django's contract says the larger."""
    order = [greet.using(priority=priority).enqueue(str(priority)).id for priority in (1, 10, -5, 0)]
    assert [done.id for done in run_pending()] == [order[1], order[0], order[3], order[2]]


def test_running_in_the_future_at_a_time(database: str) -> None:
    """`greet.using(run_after=timezone.datetime(2030, 1, 1)).enqueue('World')`, in a project without time zones."""
    with override_settings(USE_TZ=False):
        result = greet.using(run_after=timezone.datetime(2030, 1, 1)).enqueue("World")
        assert counts(database) == {"scheduled": 1}
        assert run_pending() == []
        (done,) = run_pending(including_scheduled=True)
    assert done.id == result.id


def test_running_in_the_future_at_a_time_in_a_project_with_time_zones(database: str) -> None:
    """The same where `USE_TZ` is true: the time needs a zone, as everywhere in Django."""
    with pytest.raises(InvalidTask, match="aware"):
        greet.using(run_after=timezone.datetime(2030, 1, 1)).enqueue("World")
    moment = timezone.datetime(2030, 1, 1, tzinfo=UTC)
    result = greet.using(run_after=moment).enqueue("World")
    assert Job.objects.get(pk=result.id).scheduled_at == moment
    assert run_pending() == []
    (done,) = run_pending(including_scheduled=True)
    assert done.id == result.id


def test_running_in_the_future_after_a_time(database: str) -> None:
    """`greet.using(run_after=timezone.timedelta(minutes=1)).enqueue('hello')`."""
    before = datetime.now(UTC)
    result = greet.using(run_after=timezone.timedelta(minutes=1)).enqueue("hello")
    due = Job.objects.get(pk=result.id).scheduled_at
    assert due is not None
    assert before <= due - timedelta(minutes=1) <= datetime.now(UTC)
    assert run_pending(including_scheduled=timedelta(seconds=30)) == []
    (done,) = run_pending(including_scheduled=timedelta(minutes=2))
    assert done.status == TaskResultStatus.SUCCESSFUL


@pytest.mark.anyio
async def test_running_in_the_future_by_a_dispatcher_and_a_worker(database: str, capsys: Capture) -> None:
    """The same with a shorter time, run by the runtime."""
    async with running(worker()):
        (done,) = await wait_for_results(await greet.using(run_after=timezone.timedelta(seconds=0.5)).aenqueue("hello"))
    assert done.started_at is not None
    assert done.enqueued_at is not None
    assert done.started_at - done.enqueued_at >= timedelta(seconds=0.5)
    assert capsys.readouterr().out == "Hello, hello\n"


def test_arguments_that_are_times_and_models(database: str) -> None:
    """ "Argument serialization": timestamps, timedeltas and Django models come back as they were."""
    ada = Customer.objects.using(database).create(name="Ada")
    values = (datetime(2030, 1, 1, tzinfo=UTC), timedelta(minutes=1), ada)
    kept.clear()
    keep.enqueue(*values, customer=ada)
    run_pending(raising=True)
    assert kept == [(values, {"customer": ada})]
    assert kept[0][0][2].name == "Ada"


def test_arguments_a_model_that_is_gone(database: str) -> None:
    """`steady_queue.arguments.DeserializationError` if the row is gone when the task is to run."""
    ada = Customer.objects.using(database).create(name="Ada")
    result = keep.enqueue(ada)
    ada.delete()
    (done,) = run_pending()
    assert (done.id, done.status) == (result.id, TaskResultStatus.FAILED)
    assert done.errors[0].exception_class is DeserializationError
    assert counts(database) == {"failed": 1}


def test_incremental_adoption(database: str, capsys: Capture) -> None:
    """The `backend` of a task moves it alone: the others stay with the backend that they had."""
    entries = {
        "default": {"BACKEND": f"{FRAMEWORK}.backends.immediate.ImmediateBackend"},
        "steady_queue": {**TASKS["default"], "QUEUES": ["real_time"]},
    }
    with override_settings(TASKS=entries):
        tralalero.enqueue()
        greet.enqueue("World")
        assert capsys.readouterr().out == "Hello, World\n"
        assert counts(database) == {"ready": 1}
        run_pending(raising=True)
    assert capsys.readouterr().out == "tralala\n"
