"""The examples of the guide to waiting, run with a worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.test import RequestFactory

from steady_queue import TaskState
from steady_queue.aio import running
from tests.docs.pages import page
from tests.support.runtime import in_thread, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


@pytest.fixture
def example(example_of: Callable[..., ModuleType]) -> ModuleType:
    """The examples as one module of tasks and views."""
    return example_of("waiting")


async def test_the_functions_of_the_guide_return_the_value_of_the_task(database: str, example: ModuleType) -> None:
    async with running(worker()):
        assert await in_thread(example.price_list, [1.5, 2.0]) == 3.5
        assert await example.aprice_list([1.5, 2.0, 0.5]) == 4.0


async def test_the_view_of_the_guide_streams_the_updates_of_a_task(database: str, example: ModuleType) -> None:
    result = await example.total.aenqueue([1.0])
    response = await example.follow(RequestFactory().get("/"), result.id)
    events = []
    async with running(worker()):
        async for chunk in response.streaming_content:
            text = chunk.decode()
            assert text.startswith("data: ")
            assert text.endswith("\n\n")
            events.append(json.loads(text.removeprefix("data: ")))
    assert {"state": "finished"} in events[-1:]


def test_the_table_of_states_is_complete() -> None:
    rows = page("docs/guides/waiting.md").section("The state of a task")
    assert all(f"| `{state}` |" in rows for state in TaskState)
