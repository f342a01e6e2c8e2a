"""A recurring task that is run now, apart from its schedule."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone, translation

from steady_queue import disable_recurring_task, schedule_recurring_task
from steady_queue.errors import UnknownRecurringTask, UnknownTaskError
from steady_queue.models import Job, RecurringExecution, RecurringTask
from steady_queue.recurring.manual_runs import run_recurring_task
from tests.shop.tasks import add
from tests.support.databases.tables import count, counts


def stored(database: str, job_id: str | None) -> Job:
    assert job_id is not None
    return Job.objects.using(database).get(id=job_id)


def test_the_task_is_enqueued_once_with_the_options_of_the_entry_and_no_tick_is_recorded(database: str) -> None:
    moment = timezone.now()
    options: dict[str, Any] = {"queue_name": "mail", "priority": 7}
    schedule_recurring_task(add, key="key", schedule="@daily", args=[1], kwargs={"b": moment}, **options)
    before = RecurringTask.objects.using(database).values().get()

    run = run_recurring_task("key")

    assert run.is_enqueued
    job = stored(database, run.job_id)
    assert (job.task_path, job.queue_name, job.priority) == ("tests.shop.tasks.add", "mail", 7)
    assert Job.objects.using(database).count() == 1
    assert counts(database) == {"ready": 1}
    assert not RecurringExecution.objects.using(database).exists()
    assert RecurringTask.objects.using(database).values().get() == before


@pytest.mark.usually_on("sqlite")
def test_the_task_has_the_language_and_the_time_zone_of_the_project(database: str) -> None:
    schedule_recurring_task(add, key="key", schedule="@daily", args=[1])
    with translation.override("de"), timezone.override("Asia/Kolkata"):
        run = run_recurring_task("key")
        assert translation.get_language() == "de"
    assert stored(database, run.job_id).headers is None


def test_a_run_is_left_out_while_the_task_of_an_earlier_one_is_unfinished(database: str) -> None:
    schedule_recurring_task(add, key="key", schedule="@daily", args=[1], skip_if_unfinished=True)
    first, second = run_recurring_task("key"), run_recurring_task("key")

    assert second == (first.job_id, "the task of an earlier run is unfinished")
    # The same key as that of a tick of the schedule, which is left out as well.
    assert stored(database, first.job_id).unique_key == "recurring/key"
    assert count(database, "job") == 1


@pytest.mark.usually_on("sqlite")
def test_a_disabled_entry_can_be_run(database: str) -> None:
    schedule_recurring_task(add, key="key", every=timedelta(hours=1), args=[1])
    disable_recurring_task("key")
    assert run_recurring_task("key").is_enqueued
    assert not RecurringTask.objects.using(database).get().enabled


@pytest.mark.usually_on("sqlite")
def test_an_entry_that_cannot_be_run_says_why(database: str) -> None:
    with pytest.raises(UnknownRecurringTask, match="'key'"):
        run_recurring_task("key")
    schedule_recurring_task(add, key="key", schedule="@daily", args=[1])
    RecurringTask.objects.using(database).update(task_path="tests.shop.tasks.gone")
    with pytest.raises(UnknownTaskError, match="gone"):
        run_recurring_task("key")
    assert count(database, "job") == 0
