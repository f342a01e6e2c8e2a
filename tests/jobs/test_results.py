"""Results: every state of a job as the framework's TaskResult, and ids that belong to none."""

from __future__ import annotations

import asyncio
import re
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import override_settings

from steady_queue import actions
from steady_queue.errors import UnknownTaskError
from steady_queue.jobs.compat import (
    InvalidTask,
    TaskContext,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
)
from steady_queue.store.job import Lane
from tests.jobs.conftest import Look, by_aget, by_get
from tests.shop import framework_tasks, tasks
from tests.shop.models import Customer
from tests.support.databases.tables import query
from tests.support.store.manual_worker import Worker

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult

pytestmark = pytest.mark.contract

OURS = "steady_queue.backend.SteadyQueueBackend"


READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING


FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


# -- states -----------------------------------------------------------------------------------------------------------


def test_a_job_that_waits_is_ready_in_every_waiting_state(database: str, look: Look) -> None:
    waiting: list[TaskResult[Any]] = [
        tasks.add.enqueue(1),
        tasks.add.using(run_after=timedelta(days=1)).enqueue(1),
        tasks.charge.enqueue("ada"),
        tasks.charge.enqueue("ada"),
    ]
    for result in waiting:
        seen = look(result)
        assert (seen.status, seen.is_finished, seen.attempts) == (READY, False, 0)
        assert (seen.started_at, seen.last_attempted_at, seen.finished_at) == (None, None, None)
        with pytest.raises(ValueError, match="not finished"):
            _ = seen.return_value


def test_a_claimed_job_is_running_and_its_attempt_counts(database: str, look: Look) -> None:
    result = tasks.add.enqueue(1)
    Worker(database, "worker-7").claim()
    seen = look(result)
    assert (seen.status, seen.is_finished) == (RUNNING, False)
    assert (seen.attempts, seen.worker_ids, seen.errors) == (1, ["worker-7"], [])
    assert seen.started_at == seen.last_attempted_at
    assert seen.enqueued_at is not None
    assert seen.started_at is not None
    assert seen.enqueued_at <= seen.started_at
    assert seen.finished_at is None
    with pytest.raises(ValueError, match="not finished"):
        _ = seen.return_value


@pytest.mark.parametrize(
    ("text", "value"),
    [(None, None), ("null", None), ("3", 3), ('["a",{"b":[1.5,true]}]', ["a", {"b": [1.5, True]}]), ('""', "")],
)
def test_a_finished_job_is_successful_and_has_its_value(
    database: str, look: Look, text: str | None, value: object
) -> None:
    result = tasks.add.enqueue(1)
    worker = Worker(database)
    worker.finish(worker.claim(), text)
    seen = look(result)
    assert (seen.status, seen.is_finished, seen.errors) == (SUCCESSFUL, True, [])
    assert seen.return_value == value
    assert (seen.attempts, seen.worker_ids) == (1, ["worker-1"])
    moments = [seen.enqueued_at, seen.started_at, seen.last_attempted_at, seen.finished_at]
    assert all(moment is not None and moment.tzinfo is not None for moment in moments)
    assert moments == sorted(moments)  # type: ignore[type-var]


def test_a_failed_job_has_its_error_and_no_value(database: str, look: Look) -> None:
    result = tasks.fail.enqueue("no")
    worker = Worker(database)
    try:
        tasks.fail.func("not today 😀")
    except ValueError as error:
        worker.fail(worker.claim(), error)
    seen = look(result)
    assert (seen.status, seen.is_finished, seen.attempts) == (FAILED, True, 1)
    assert seen.finished_at is not None
    assert seen.started_at is not None
    assert seen.started_at <= seen.finished_at
    (error_seen,) = seen.errors
    assert error_seen.exception_class is ValueError
    assert "in fail" in error_seen.traceback
    assert error_seen.traceback.endswith("ValueError: not today 😀\n")
    with pytest.raises(ValueError, match="failed"):
        _ = seen.return_value


def test_a_released_job_is_ready_again_and_no_attempt_is_spent(database: str, look: Look) -> None:
    result = tasks.add.enqueue(1)
    worker = Worker(database)
    worker.release(worker.claim())
    seen = look(result)
    assert (seen.status, seen.attempts, seen.started_at) == (READY, 0, None)


def test_a_second_attempt_adds_to_what_the_first_one_left(database: str, look: Look) -> None:
    result = tasks.fail.enqueue("no")
    first, second = Worker(database, "first"), Worker(database, "second")
    first.fail(first.claim(), ValueError("one"))
    failed = look(result)
    started_at, failed_at = failed.started_at, failed.finished_at
    second.retry(result.id)
    claimed = second.claim()
    running = look(result)
    assert (running.status, running.worker_ids, len(running.errors)) == (RUNNING, ["first", "second"], 1)
    assert running.finished_at is None
    second.fail(claimed, KeyError("two"))
    seen = look(result)
    assert (seen.worker_ids, seen.attempts) == (["first", "second"], 2)
    assert [error.exception_class for error in seen.errors] == [ValueError, KeyError]
    assert seen.started_at == started_at
    assert started_at is not None
    assert failed_at is not None
    assert seen.last_attempted_at is not None
    assert seen.finished_at is not None
    assert started_at < seen.last_attempted_at
    assert failed_at < seen.finished_at


def test_a_retried_job_that_succeeds_keeps_its_errors(database: str, look: Look) -> None:
    result = tasks.fail.enqueue("no")
    worker = Worker(database)
    worker.fail(worker.claim(), ValueError("one"))
    worker.retry(result.id)
    assert look(result).status == READY
    worker.finish(worker.claim(), "1")
    seen = look(result)
    assert (seen.status, seen.return_value, len(seen.errors), seen.attempts) == (SUCCESSFUL, 1, 1, 2)


def test_a_refreshed_result_follows_its_job(database: str, refreshed: Look) -> None:
    worker = Worker(database)
    result = tasks.add.enqueue(1, b=2)
    assert refreshed(result).status == READY
    claimed = worker.claim()
    running = refreshed(result)
    assert (running.status, running.worker_ids, running.finished_at) == (RUNNING, ["worker-1"], None)
    assert running.started_at is not None
    worker.fail(claimed, ValueError("no"))
    failed = refreshed(result)
    assert (failed.status, failed.errors[0].exception_class) == (FAILED, ValueError)
    assert failed.finished_at is not None
    worker.retry(result.id)
    assert (refreshed(result).status, result.finished_at) == (READY, None)
    worker.finish(worker.claim(), "3")
    done = refreshed(result)
    assert (done.status, done.return_value, done.attempts) == (SUCCESSFUL, 3, 2)
    assert done is result


def test_the_end_of_the_interpreter_and_deep_recursion_are_errors_like_others(database: str, look: Look) -> None:
    def dive(depth: int) -> int:
        return dive(depth + 1)

    worker = Worker(database)
    try:
        dive(0)
    except RecursionError as error:
        too_deep = error
    for raised in (SystemExit(3), too_deep):
        result = tasks.add.enqueue(1)
        worker.fail(worker.claim(), raised)
        (seen,) = look(result).errors
        assert seen.exception_class is type(raised)
        assert seen.traceback.rstrip().endswith(str(raised))


def test_the_context_of_a_running_task_knows_its_result_and_attempt(database: str) -> None:
    result = tasks.with_context.enqueue(5)
    Worker(database).claim()
    context = TaskContext(task_result=by_get(result))
    assert context.task_result.task.func(context, *context.task_result.args) == f"{result.id} 1 5"


# -- what comes back --------------------------------------------------------------------------------------------------


def test_the_task_of_a_result_has_the_options_it_was_enqueued_with(database: str, look: Look) -> None:
    moment = datetime(2040, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    used = tasks.send_mail.using(priority=-3, queue_name="reports", run_after=moment, backend="anything")
    assert look(used.enqueue("ada@example.com")).task == used
    total = framework_tasks.total.using(priority=100)
    assert look(total.enqueue(1, 2)).task == total


def test_arguments_of_every_kind_can_be_shown_and_are_shown_the_same_each_time(database: str, look: Look) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    args = (
        *(datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(2024, 1, 2), date(2024, 1, 2), time(3, 4)),
        *(timedelta(days=-1, microseconds=5), Decimal("1.10"), UUID(int=5), Customer.Tier.GOLD),
        *(b"bytes", b"\xff", (1, (2,)), {1, 2}, frozenset({"a"}), {1: "one", None: {"$": 2}}, 10**30, 1.5, None, ada),
    )
    result = tasks.anything.enqueue(*args, näme=[{"$": "datetime"}], nan="NaN")
    shown, shown_kwargs = result.args, result.kwargs
    assert len(shown) == len(args)
    seen = look(result)
    assert (seen.args, seen.kwargs) == (shown, shown_kwargs)
    assert shown_kwargs == {"näme": [{"$": "datetime"}], "nan": "NaN"}


def test_a_result_whose_model_instance_is_gone_can_still_be_shown(database: str, look: Look) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    result = tasks.anything.enqueue(ada)
    ada.delete()
    assert look(result).args == result.args


def test_the_result_of_a_queue_that_left_the_settings_can_still_be_read(database: str) -> None:
    result = tasks.send_mail.enqueue("ada@example.com")
    with override_settings(TASKS={"default": {"BACKEND": OURS, "QUEUES": ["other"]}}):
        seen = task_backends["default"].get_result(result.id)
        assert (seen.id, seen.task.func, seen.status) == (result.id, tasks.send_mail.func, READY)
        with pytest.raises(InvalidTask):
            seen.task.enqueue("ada@example.com")


def test_the_result_of_a_backend_that_left_the_settings_can_still_be_read(database: str) -> None:
    result = tasks.add.using(backend="anything").enqueue(1)
    with override_settings(TASKS={"default": {"BACKEND": OURS}}):
        seen = task_backends["default"].get_result(result.id)
        assert (seen.id, seen.task.func) == (result.id, tasks.add.func)


# -- ids of nothing ---------------------------------------------------------------------------------------------------

BAD_IDS: list[Any] = [
    *(None, "", "x", "x" * 36, 5, 0, 1.5, True, b"x" * 16, [], {}, (), object(), "\x00", "\ud800", "9" * 100_000),
    *(str(uuid4()), uuid4().hex, str(UUID(int=0)), str(UUID(int=2**128 - 1))),
]


def test_an_id_that_belongs_to_no_result_does_not_exist(database: str) -> None:
    tasks.add.enqueue(1)
    for bad in BAD_IDS:
        for source in (task_backends["default"], tasks.add):
            with pytest.raises(TaskResultDoesNotExist):
                source.get_result(bad)


def test_the_error_for_an_id_explains_why_there_is_no_task(database: str) -> None:
    unknown = str(uuid4())
    text = f"no task has the id '{unknown}'; finished tasks are deleted after clear_finished_jobs_after"
    for ask in (task_backends["default"].get_result, actions.retry):
        with pytest.raises(TaskResultDoesNotExist, match=f"^{re.escape(text)}$"):
            ask(unknown)
        with pytest.raises(TaskResultDoesNotExist, match=r"^no task has the id 'five': it is not a UUID$"):
            ask("five")


def test_an_id_that_belongs_to_no_result_does_not_exist_for_async_code_either(database: str) -> None:
    async def look() -> None:
        await tasks.add.aenqueue(1)
        for bad in BAD_IDS:
            for source in (task_backends["default"], tasks.add):
                with pytest.raises(TaskResultDoesNotExist):
                    await source.aget_result(bad)

    asyncio.run(look(), debug=True)


def test_a_result_that_was_deleted_can_no_longer_be_refreshed(database: str) -> None:
    result = tasks.add.enqueue(1)
    Worker(database).discard(result.id)
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()
    with pytest.raises(TaskResultDoesNotExist):
        asyncio.run(result.arefresh())


def test_an_id_given_as_uuid_is_understood(database: str) -> None:
    result = tasks.add.enqueue(1)
    assert task_backends["default"].get_result(UUID(result.id)).id == result.id  # type: ignore[arg-type]


def test_the_result_of_another_task_is_a_mismatch(database: str) -> None:
    result = tasks.add.enqueue(1)
    with pytest.raises(TaskResultMismatch, match="add"):
        tasks.greet.get_result(result.id)
    with pytest.raises(TaskResultMismatch, match="add"):
        asyncio.run(tasks.greet.aget_result(result.id))
    assert tasks.add.using(priority=5).get_result(result.id).id == result.id
    assert asyncio.run(tasks.add.aget_result(result.id)).id == result.id


@pytest.mark.parametrize(
    "path",
    ["antigravity.task", "tests.shop.missing.task", "tests.shop.tasks.missing", "tests.shop.models.Customer", "", "x."],
)
def test_a_path_of_no_known_task_is_an_error_and_imports_nothing(database: str, path: str) -> None:
    result = tasks.add.enqueue(1)
    query(database, "UPDATE steady_queue_job SET task_path = %s", path)
    for look in (by_get, by_aget):
        with pytest.raises(UnknownTaskError, match=f"'{path}'"):
            look(result)
    assert "antigravity" not in sys.modules


def test_results_can_be_read_by_the_sync_way_inside_async_code(database: str) -> None:
    async def read() -> str:
        result = await tasks.add.aenqueue(1)
        found = await sync_to_async(tasks.add.get_result)(result.id)
        await sync_to_async(connections.close_all)()
        return found.id

    assert asyncio.run(read(), debug=True)


def test_an_async_task_is_claimed_from_its_own_lane(database: str) -> None:
    result = tasks.greet.enqueue("Ada")
    worker = Worker(database)
    worker.finish(worker.claim(Lane.ASYNC), '"Hello, Ada!"')
    assert by_get(result).return_value == "Hello, Ada!"
