"""Enqueue: what is stored and what the caller gets, the same from sync and from async code."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings
from django.utils import timezone, translation

from steady_queue.jobs.compat import InvalidTask, TaskResultStatus, task_backends
from steady_queue.store.job import Lane
from tests.shop import framework_tasks, tasks
from tests.support.databases.tables import count, counts, row
from tests.support.threads import together

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult
    from tests.support.enqueue import Put

pytestmark = pytest.mark.contract


def stored(database: str, result: TaskResult[Any]) -> dict[str, Any]:
    found = row(database, "job", result.id, column="id")
    assert found is not None
    return found


# -- one job ----------------------------------------------------------------------------------------------------------


def test_enqueue_stores_one_job_that_is_ready(database: str, put: Put) -> None:
    put(tasks.add, 1)
    assert count(database, "job") == 1
    assert counts(database) == {"ready": 1}


def test_the_id_of_the_result_is_the_id_of_the_job(database: str, put: Put) -> None:
    result = put(tasks.add, 1)
    assert stored(database, result)["id"] == UUID(result.id)
    assert result.id == str(UUID(result.id))
    assert len(result.id) < 64


def test_ids_rise_in_the_order_of_enqueues(database: str, put: Put) -> None:
    ids = [put(tasks.add, number).id for number in range(3)]
    assert ids == sorted(ids)
    assert {UUID(id_).version for id_ in ids} == {7}


def test_the_result_shows_what_was_enqueued_and_that_no_attempt_was_made(database: str, put: Put) -> None:
    before = timezone.now() - timedelta(milliseconds=1)
    result = put(tasks.add, 1, b=2)
    assert result.task == tasks.add
    assert (result.status, result.is_finished, result.backend) == (TaskResultStatus.READY, False, "default")
    assert (result.args, result.kwargs) == ([1], {"b": 2})
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    assert result.enqueued_at is not None
    assert before <= result.enqueued_at <= timezone.now()


def test_the_job_keeps_what_is_needed_to_run_it(database: str, put: Put) -> None:
    job = stored(database, result := put(tasks.add, 1, b="two"))
    assert job["task_path"] == tasks.add.module_path
    assert (job["queue_name"], job["priority"], job["backend"]) == ("default", 0, "default")
    assert json.loads(job["arguments"])[1:] == [[1], {"b": "two"}]
    assert job["enqueued_at"] == result.enqueued_at
    assert (job["scheduled_at"], job["concurrency_key"], job["headers"], job["attempts"]) == (None, None, None, 0)


def test_the_function_decides_the_lane(database: str, put: Put) -> None:
    assert stored(database, put(tasks.add, 1))["lane"] == Lane.THREAD
    assert stored(database, put(tasks.greet, "Ada"))["lane"] == Lane.ASYNC
    assert stored(database, put(framework_tasks.total, 1))["lane"] == Lane.ASYNC


def test_options_of_the_task_and_of_using_are_stored(database: str, put: Put) -> None:
    job = stored(database, put(tasks.send_mail, "ada@example.com"))
    assert (job["queue_name"], job["priority"]) == ("mail", 10)
    result = put(tasks.send_mail.using(priority=-100, queue_name="reports", backend="anything"), "ada@example.com")
    job = stored(database, result)
    assert (job["queue_name"], job["priority"], job["backend"]) == ("reports", -100, "anything")
    assert result.backend == "anything"
    ready = row(database, "readyexecution", result.id)
    assert ready is not None
    assert (ready["queue_name"], ready["priority"], ready["lane"]) == ("reports", -100, Lane.THREAD)


@pytest.mark.parametrize("priority", [-100, 5.0, 100])
def test_priorities_are_stored_as_whole_numbers(database: str, put: Put, priority: Any) -> None:
    assert stored(database, put(tasks.add.using(priority=priority), 1))["priority"] == int(priority)


def test_a_task_with_context_is_enqueued_without_it(database: str, put: Put) -> None:
    assert put(tasks.with_context, 5).args == [5]


def test_the_backend_can_be_used_directly(database: str) -> None:
    result = task_backends["default"].enqueue(tasks.add, [1], {"b": 2})
    assert (result.args, result.kwargs) == ([1], {"b": 2})
    assert counts(database) == {"ready": 1}


def test_arguments_may_have_the_names_that_the_framework_uses_itself(database: str, put: Put) -> None:
    named = {"task": 1, "args": 2, "kwargs": 3, "context": 4, "backend": 5, "calls": 6, "priority": 7}
    result = put(tasks.anything, **named)
    assert tasks.anything.get_result(result.id).kwargs == named


def test_many_threads_enqueue_at_once(database: str, put: Put) -> None:
    def some(first: int) -> list[str]:
        return [
            put(tasks.charge if number % 3 else tasks.anything, number % 4).id for number in range(first, first + 9)
        ]

    ids = [id_ for found in together(*(partial(some, first) for first in range(4))) for id_ in found]
    assert len(set(ids)) == count(database, "job") == 36
    assert counts(database) == {"ready": 12 + 4, "blocked": 24 - 4}


# -- when it is due ---------------------------------------------------------------------------------------------------


def test_a_future_job_is_scheduled_for_its_very_moment(database: str, put: Put) -> None:
    moment = datetime(2040, 5, 6, 7, 8, 9, 123456, tzinfo=ZoneInfo("Asia/Kathmandu"))
    result = put(tasks.add.using(run_after=moment, priority=3), 1)
    assert result.status == TaskResultStatus.READY
    assert counts(database) == {"scheduled": 1}
    scheduled = row(database, "scheduledexecution", result.id)
    assert scheduled is not None
    assert (scheduled["scheduled_at"], scheduled["priority"]) == (moment, 3)
    assert stored(database, result)["scheduled_at"] == moment


def test_a_job_whose_time_has_come_is_ready_at_once(database: str, put: Put) -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    result = put(tasks.add.using(run_after=moment), 1)
    assert counts(database) == {"ready": 1}
    assert tasks.add.get_result(result.id).task.run_after == moment


@pytest.mark.parametrize(
    "moment",
    [
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC) - timedelta(microseconds=1),
        datetime.min.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=UTC) + timedelta(microseconds=1),
    ],
    ids=["last", "last but one", "first", "second"],
)
def test_the_ends_of_time_are_stored_exactly_or_refused(database: str, put: Put, moment: datetime) -> None:
    try:
        result = put(tasks.add.using(run_after=moment), 1)
    except InvalidTask:
        assert count(database, "job") == 0
    else:
        assert counts(database) == {"scheduled" if moment.year > 2000 else "ready": 1}
        assert tasks.add.get_result(result.id).task.run_after == moment


def test_a_time_outside_of_the_calendar_of_utc_is_refused(database: str, put: Put) -> None:
    before_time = datetime.min.replace(tzinfo=ZoneInfo("Asia/Tokyo"))
    with pytest.raises(InvalidTask, match="run_after"):
        put(tasks.add.using(run_after=before_time), 1)
    assert count(database, "job") == 0


def test_without_time_zones_a_naive_moment_is_local_time(database: str, put: Put) -> None:
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        result = put(tasks.add.using(run_after=datetime(2040, 1, 1, 9)), 1)
        assert result.enqueued_at is not None
        assert result.enqueued_at.tzinfo is None
        assert tasks.add.get_result(result.id).task.run_after == datetime(2040, 1, 1, 9)
        assert abs(result.enqueued_at - timezone.now()) < timedelta(minutes=1)
    assert stored(database, result)["scheduled_at"] == datetime(2040, 1, 1, tzinfo=UTC)


# -- headers ----------------------------------------------------------------------------------------------------------


def headers(database: str, put: Put) -> Any:
    text = stored(database, put(tasks.add, 1))["headers"]
    return text and json.loads(text)


def test_the_locale_and_the_time_zone_of_the_caller_are_kept_where_they_differ(database: str, put: Put) -> None:
    with translation.override("de"):
        assert headers(database, put) == {"locale": "de"}
    with timezone.override("Europe/Paris"):
        assert headers(database, put) == {"timezone": "Europe/Paris"}
    with translation.override("en-us"), timezone.override("UTC"):
        assert headers(database, put) is None


ON_SQLITE = pytest.mark.parametrize("queue", ["sqlite"], indirect=True)


@ON_SQLITE
@pytest.mark.parametrize("zone", ["Etc/UTC", "Etc/GMT+5", "Asia/Tokyo"])
def test_the_projects_own_time_zone_is_not_stored_with_any_name(queue: str, put: Put, zone: str) -> None:
    with override_settings(TIME_ZONE=zone):
        assert headers(queue, put) is None
        with timezone.override(zone):
            assert headers(queue, put) is None


@ON_SQLITE
@pytest.mark.parametrize("zone", ["Etc/GMT+5", "Asia/Tokyo"])
def test_a_kept_time_zone_is_named_by_its_key(queue: str, put: Put, zone: str) -> None:
    with timezone.override(zone):
        assert headers(queue, put) == {"timezone": zone}
