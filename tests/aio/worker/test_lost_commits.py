"""Commits of transactional tasks whose reply never arrives: the database decides whether the task has finished."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue.aio import running
from steady_queue.events import JobCommitConfirmed, JobFailed, JobFenced, JobsSettled
from steady_queue.jobs.compat import task_finished
from tests.support.databases.aliases import application_in, pointed_at
from tests.support.databases.tables import query
from tests.support.runtime import EmittedEvents, error_of, in_thread, until, values, wait_for_results, worker
from tests.support.servers.proxy import COMMIT
from tests.support.tasks import transactional
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.jobs.compat import Task, TaskResult
    from tests.support.servers.proxy import Proxy

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("short_outage_pauses"),
    pytest.mark.only_on("postgres", "mariadb"),  # SQLite has no server that could be stopped
    pytest.mark.usually_on("postgres", "mariadb"),
]

INSERT = re.compile(b"INSERT INTO .?shop_customer")


@pytest.fixture(autouse=True)
def everything_behind_proxy(proxied: str) -> Iterator[None]:
    """Tasks reach their database through the proxy, as the process does."""
    with pointed_at(proxied), application_in(proxied):
        yield


@pytest.fixture
def finished() -> Iterator[list[TaskResult[Any]]]:
    """The results that were sent with `task_finished`."""
    results: list[TaskResult[Any]] = []

    def receive(task_result: TaskResult[Any], **_: Any) -> None:
        results.append(task_result)

    task_finished.connect(receive)
    yield results
    task_finished.disconnect(receive)


def names(alias: str) -> list[str]:
    return [row[0] for row in query(alias, "SELECT name FROM shop_customer")]


async def test_a_task_whose_commit_was_applied_has_finished(
    database: str, proxy: Proxy, finished: list[TaskResult[Any]]
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        result = await transactional.waits_and_writes.aenqueue("Ada")
        await until(lambda: task_record.began == ["Ada"])
        proxy.lose_answer(COMMIT, after=INSERT)
        task_record.gate.set()
        assert await values(result) == ["Ada"]
        await until(lambda: bool(emitted.of(JobCommitConfirmed)))
    assert proxy.has_lost.is_set()
    assert await in_thread(names, database) == ["Ada"]
    assert not emitted.of(JobFailed)
    assert not emitted.of(JobFenced)
    assert not finished


async def test_a_task_whose_commit_never_arrived_has_failed(database: str, proxy: Proxy) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        result = await transactional.waits_and_writes.aenqueue("Ada")
        await until(lambda: task_record.began == ["Ada"])
        proxy.lose_request(COMMIT, after=INSERT)
        task_record.gate.set()
        await wait_for_results(result)
        await until(lambda: bool(emitted.of(JobFailed)))
    assert proxy.has_lost.is_set()
    assert error_of(result) == "steady_queue.errors.StoreUnavailable"
    assert await in_thread(names, database) == []


@pytest.mark.parametrize("is_applied", [True, False])
@pytest.mark.parametrize("task", [transactional.retries_after_lost_commit, transactional.tries_block_again])
async def test_a_task_that_is_tried_again_after_a_lost_commit_writes_once(
    database: str, proxy: Proxy, task: Task[..., Any], is_applied: bool
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        result = await task.aenqueue("Ada")
        await until(lambda: task_record.began == ["Ada"])
        (proxy.lose_answer if is_applied else proxy.lose_request)(COMMIT, after=INSERT)
        task_record.gate.set()
        assert await values(result) == ["Ada"]
        await until(lambda: bool(emitted.of(JobsSettled)))
    assert proxy.has_lost.is_set()
    assert await in_thread(names, database) == ["Ada"]
    assert not emitted.of(JobFailed)
