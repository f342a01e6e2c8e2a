"""Both ways to read a result, both ways to enqueue many calls, and the framework's log."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from steady_queue import aenqueue_all, enqueue_all
from steady_queue.jobs.compat import FRAMEWORK, task_backends
from tests.support.logs import RecordsHandler, as_installed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from steady_queue.jobs.compat import TaskResult
    from steady_queue.jobs.enqueueing.enqueued import Results


class Look(Protocol):
    """The current result of a job, known by an older result of it."""

    def __call__(self, result: TaskResult[Any]) -> TaskResult[Any]: ...


def by_get(result: TaskResult[Any]) -> TaskResult[Any]:
    return task_backends["default"].get_result(result.id)


def by_aget(result: TaskResult[Any]) -> TaskResult[Any]:
    return asyncio.run(task_backends["default"].aget_result(result.id), debug=True)


def by_refresh(result: TaskResult[Any]) -> TaskResult[Any]:
    result.refresh()
    return result


def by_arefresh(result: TaskResult[Any]) -> TaskResult[Any]:
    asyncio.run(result.arefresh(), debug=True)
    return result


@pytest.fixture(params=[by_get, by_aget], ids=lambda way: way.__name__)
def look(request: pytest.FixtureRequest) -> Look:
    way: Look = request.param
    return way


@pytest.fixture(params=[by_refresh, by_arefresh], ids=lambda way: way.__name__)
def refreshed(request: pytest.FixtureRequest) -> Look:
    way: Look = request.param
    return way


class PutAll(Protocol):
    """Enqueues many calls, from sync or from async code."""

    def __call__(self, calls: Iterable[Any]) -> Results: ...


def put_all_async(calls: Iterable[Any]) -> Results:
    return asyncio.run(aenqueue_all(calls), debug=True)


@pytest.fixture(params=[enqueue_all, put_all_async], ids=["enqueue_all", "aenqueue_all"])
def put_all(request: pytest.FixtureRequest) -> PutAll:
    way: PutAll = request.param
    return way


@pytest.fixture
def pages() -> Iterator[RecordsHandler]:
    """A handler of the framework's logger, and no other."""
    pages = RecordsHandler()
    with as_installed(FRAMEWORK):
        logging.getLogger(FRAMEWORK).setLevel(logging.INFO)
        logging.getLogger(FRAMEWORK).addHandler(pages)
        yield pages
