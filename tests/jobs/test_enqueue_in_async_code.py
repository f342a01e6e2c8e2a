"""Sync calls in async code: Django's error, with the async form to use in its text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.core.exceptions import SynchronousOnlyOperation

from steady_queue import actions, enqueue_all, queues
from steady_queue.jobs.compat import task_backends
from tests.shop import tasks
from tests.support.databases.tables import count

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.contract

ID = str(uuid4())


def refused(call: Callable[[], object]) -> str:
    """The text of the error of a sync call in a coroutine."""

    async def main() -> str:
        with pytest.raises(SynchronousOnlyOperation) as caught:
            call()
        return str(caught.value)

    return asyncio.run(main(), debug=True)


@pytest.mark.parametrize("task", [tasks.add, tasks.charge], ids=["plain", "limited"])
def test_enqueue_names_aenqueue_of_the_task(database: str, task: Any) -> None:
    assert refused(lambda: task.enqueue(1)) == (
        "this is async code, which cannot use Django's database connection: "
        f"instead of {task.name}.enqueue(...), use: await {task.name}.aenqueue(...)"
    )
    assert count(database, "job") == 0


def test_enqueue_all_names_aenqueue_all(database: str) -> None:
    assert "use: await aenqueue_all(...)" in refused(lambda: enqueue_all([tasks.add.bind(1)]))


def test_reading_a_result_names_the_async_forms(database: str) -> None:
    result = tasks.add.enqueue(1)
    for call in (result.refresh, lambda: tasks.add.get_result(result.id), lambda: by_backend(result.id)):
        text = refused(call)
        assert "await aget_result(id)" in text
        assert "await result.arefresh()" in text


def by_backend(id_: str) -> object:
    return task_backends["default"].get_result(id_)


@pytest.mark.parametrize(
    "call",
    [lambda: queues.Queue("default").size, lambda: queues.Queue("default").pause(), lambda: actions.retry_many([ID])],
    ids=["size", "pause", "retry_many"],
)
def test_other_calls_name_the_async_form(database: str, call: Callable[[], object]) -> None:
    assert "its name begins with 'a'" in refused(call)
