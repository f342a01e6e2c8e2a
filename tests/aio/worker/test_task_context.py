"""The context of a task: its attempt, the enqueuer's locale and zone, signals, and nothing of other tasks."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone, translation

from steady_queue.aio import running
from steady_queue.backend import SteadyQueueBackend
from steady_queue.jobs.compat import TaskResultStatus, task_finished, task_started
from tests.shop.tasks import add, fail, greet
from tests.support.databases.tables import query
from tests.support.runtime import until, values, wait_for_results, worker
from tests.support.tasks import recording
from tests.support.wait import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.dispatch import Signal

    from steady_queue.jobs.compat import Task, TaskResult

#: All databases: each Django has its own task framework, whose signals, contexts and log lines these are.
pytestmark = [pytest.mark.anyio, pytest.mark.smoke]

one_slot = {"coroutines": 1, "threads": 1, "orm_lanes": 1}


@pytest.mark.parametrize("task", [recording.returns_context, recording.returns_context_in_thread])
async def test_a_task_that_takes_its_context_gets_its_id_and_attempt(database: str, task: Task[..., Any]) -> None:
    async with running(worker()):
        result = await task.aenqueue(5)
        assert await values(result) == [[result.id, 1, 5]]


async def test_the_attempt_counts_those_before(database: str) -> None:
    result = await recording.returns_context.aenqueue(0)
    await in_thread(query, database, "UPDATE steady_queue_job SET attempts = 2, worker_ids = 'one\ntwo'")
    async with running(worker()) as process:
        assert await values(result) == [[result.id, 3, 0]]
        assert result.worker_ids == ["one", "two", process.name]


@pytest.mark.parametrize("task", [recording.returns_locale, recording.returns_locale_in_thread])
async def test_a_task_has_the_locale_and_time_zone_of_its_enqueuer_alone(database: str, task: Task[..., Any]) -> None:
    async with running(worker(**one_slot)):
        with translation.override("de"), timezone.override("Europe/Paris"):
            first = await task.aenqueue()
        second = await task.aenqueue()
        with translation.override("pt-br"):
            third = await task.aenqueue()
        assert await values(first, second, third) == [["de", "Europe/Paris"], ["en-us", "UTC"], ["pt-br", "UTC"]]


@pytest.mark.parametrize(
    ("changes", "returns"),
    [
        (recording.changes_context, recording.returns_locale),
        (recording.changes_context_in_thread, recording.returns_locale_in_thread),
    ],
)
async def test_what_a_task_sets_is_not_seen_by_the_next(
    database: str, changes: Task[..., Any], returns: Task[..., Any]
) -> None:
    recording.variable.set("of the test")
    async with running(worker(**one_slot)):
        first, second, third = await changes.aenqueue("a"), await changes.aenqueue("b"), await returns.aenqueue()
        assert await values(first, second, third) == ["unset", "unset", ["en-us", "UTC"]]
    assert recording.variable.get() == "of the test"


@contextmanager
def received(signal: Signal) -> Iterator[list[tuple[Any, TaskResult[Any]]]]:
    """The sender and the result that a receiver gets."""
    calls: list[tuple[Any, TaskResult[Any]]] = []

    def receive(sender: Any, task_result: TaskResult[Any], **kwargs: Any) -> None:
        calls.append((sender, task_result))

    signal.connect(receive)
    try:
        yield calls
    finally:
        signal.disconnect(receive)


async def test_each_run_sends_started_and_finished_once_with_the_backend_class(database: str) -> None:
    with received(task_started) as started, received(task_finished) as finished:
        async with running(worker()):
            results: list[TaskResult[Any]] = [
                await add.aenqueue(1),
                await greet.aenqueue("Ada"),
                await fail.aenqueue("boom"),
            ]
            await wait_for_results(*results)
            await until(lambda: len(finished) == 3)
    ids = sorted(result.id for result in results)
    assert sorted(result.id for _, result in started) == ids
    assert sorted(result.id for _, result in finished) == ids
    assert {sender for sender, _ in started + finished} == {SteadyQueueBackend}
    statuses = {result.id: result.status for _, result in finished}
    assert [statuses[result.id] for result in results] == [
        TaskResultStatus.SUCCESSFUL,
        TaskResultStatus.SUCCESSFUL,
        TaskResultStatus.FAILED,
    ]


async def test_an_async_receiver_and_a_receiver_that_fails_do_not_change_the_outcome(database: str) -> None:
    finished_ids: list[str] = []

    async def receive(sender: Any, task_result: TaskResult[Any], **kwargs: Any) -> None:
        finished_ids.append(task_result.id)

    def refuse(sender: Any, **kwargs: Any) -> None:
        raise LookupError("refused")

    for receiver in (receive, refuse):
        task_finished.connect(receiver)
    try:
        async with running(worker()):
            results = await wait_for_results(await add.aenqueue(1), await greet.aenqueue("Ada"))
            assert [result.status for result in results] == [TaskResultStatus.SUCCESSFUL] * 2
    finally:
        for receiver in (receive, refuse):
            task_finished.disconnect(receiver)
    assert sorted(finished_ids) == sorted(result.id for result in results)


async def test_a_failure_is_logged_once_with_its_traceback(database: str, caplog: pytest.LogCaptureFixture) -> None:
    async with running(worker()):
        (result,) = await wait_for_results(await fail.aenqueue("boom"))
    lines = [record for record in caplog.records if result.id in record.getMessage()]
    failures = [record for record in lines if record.levelname == "ERROR"]
    assert len(failures) == 1
    assert failures[0].exc_info is not None
    assert re.search("FAILED", failures[0].getMessage())
