"""When a task expires: from its options, from those of the project, and for one call."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from steady_queue import task
from steady_queue.jobs.compat import InvalidTask
from steady_queue.jobs.definition.expiry import LATEST
from steady_queue.jobs.definition.task import SteadyQueueTask, TaskCall
from steady_queue.jobs.enqueueing.new_jobs import build_jobs
from steady_queue.models import Job
from steady_queue.testing import run_pending
from tests.shop.tasks import add
from tests.support.databases.tables import count

HOUR = timedelta(hours=1)
TOMORROW = datetime(2030, 1, 2, 12, tzinfo=UTC)


def seconds_until_expiry(task: SteadyQueueTask[..., Any], **defaults: Any) -> float | None:
    """How long after its enqueue, or after `run_after`, a job of this task expires."""
    (job,) = build_jobs([TaskCall(task, (1,))], defaults=defaults)
    if job.expires_at is None:
        return None
    return (job.expires_at - (job.scheduled_at or job.enqueued_at)).total_seconds()


def test_a_task_without_the_option_never_expires() -> None:
    assert seconds_until_expiry(add) is None


@pytest.mark.parametrize("after", [90, 90.0, timedelta(seconds=90)])
def test_a_task_expires_so_long_after_its_enqueue(after: float | timedelta) -> None:
    assert seconds_until_expiry(add.using(expires_after=after)) == 90


def test_a_delayed_task_expires_so_long_after_it_is_due() -> None:
    assert seconds_until_expiry(add.using(expires_after=90, run_after=TOMORROW)) == 90


def test_the_default_of_the_project_applies_unless_the_task_has_its_own() -> None:
    assert seconds_until_expiry(add, expires_after=30) == 30
    assert seconds_until_expiry(add.using(expires_after=90), expires_after=HOUR) == 90


def test_a_call_can_name_the_moment() -> None:
    (job,) = build_jobs([TaskCall(add.using(expires_at=TOMORROW, expires_after=5), (1,))])
    assert job.expires_at == TOMORROW
    pickled = pickle.loads(pickle.dumps(add.using(expires_at=TOMORROW)))
    assert build_jobs([TaskCall(pickled, (1,))])[0].expires_at == TOMORROW


def test_a_moment_that_no_database_can_store_is_cut() -> None:
    (job,) = build_jobs([TaskCall(add.using(expires_after=HOUR, run_after=LATEST), (1,))])
    assert job.expires_at == LATEST


def test_a_task_and_a_call_opt_out_of_the_default_of_the_project() -> None:
    assert seconds_until_expiry(task(expires_after=math.inf)(add.func), expires_after=30) is None
    assert seconds_until_expiry(add.using(expires_after=math.inf), expires_after=HOUR) is None


@pytest.mark.parametrize(
    "value",
    [0, -1, True, float("nan"), -math.inf, "5", pytest.param(10**400, id="huge"), timedelta(0), timedelta(days=40_000)],
)
def test_a_senseless_expires_after_is_refused_by_name(value: Any) -> None:
    message = "expires_after must be a number of seconds or a timedelta greater than zero"
    with pytest.raises(InvalidTask, match=message):
        task(expires_after=value)(add.func)
    with pytest.raises(InvalidTask, match=message):
        add.using(expires_after=value)


@pytest.mark.parametrize("value", [datetime(2030, 1, 1), 5, "2030-01-01", datetime.max.replace(tzinfo=UTC)])
def test_a_senseless_expires_at_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidTask, match="expires_at must be an aware datetime"):
        add.using(expires_at=value)


def test_a_task_that_would_expire_before_it_is_due_is_refused() -> None:
    with pytest.raises(InvalidTask, match="expires_at must be later than run_after"):
        build_jobs([TaskCall(add.using(run_after=TOMORROW, expires_at=TOMORROW - HOUR), (1,))])


def test_the_moment_belongs_to_a_call_and_not_to_a_task() -> None:
    with pytest.raises(TypeError, match=r"set it for a call, with .using\(expires_at=...\)"):
        task(expires_at=TOMORROW)  # type: ignore[call-overload]


def test_the_options_of_the_project_are_stored_with_each_task(database: str) -> None:
    backend = {"BACKEND": "steady_queue.backend.SteadyQueueBackend", "OPTIONS": {"expires_after": HOUR}}
    with override_settings(TASKS={"default": backend}):
        result = add.enqueue(1)
    job = Job.objects.using(database).get(pk=result.id)
    assert job.expires_at is not None
    assert timedelta(minutes=59) < job.expires_at - timezone.now() <= HOUR
    assert count(database, "expiry") == 1


def test_run_pending_does_not_run_a_task_that_has_expired(database: str) -> None:
    late, timely = add.using(expires_after=60).enqueue(1), add.using(expires_after=60).enqueue(2)
    Job.objects.using(database).filter(pk=late.id).update(expires_at=timezone.now() - HOUR)
    first, second = run_pending()
    assert (first.id, first.state, first.attempts) == (late.id, "expired", 0)  # type: ignore[attr-defined]
    assert [error.exception_class_path for error in first.errors] == ["steady_queue.errors.TaskExpired"]
    assert (second.id, second.return_value) == (timely.id, 2)
