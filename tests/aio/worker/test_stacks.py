"""The stack of a job as text: the code of the task, without that of the runtime."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from steady_queue.aio.worker.control.stacks import STACK_LENGTH, stack_of_task, stack_of_thread
from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio


async def outer() -> None:
    async for _ in middle():
        pass


async def middle() -> AsyncIterator[None]:
    await inner()
    yield


async def inner() -> None:
    await asyncio.Event().wait()


async def plain() -> None:
    await inner()


async def test_the_stack_of_a_task_has_each_coroutine_that_it_awaits() -> None:
    task = asyncio.create_task(plain())
    await asyncio.sleep(0)
    assert [line.rpartition(" in ")[2] for line in stack_of_task(task).splitlines() if line.startswith("  File")] == [
        "plain",
        "inner",
        "wait",
    ]
    task.cancel()


async def test_the_stack_of_a_task_in_an_async_generator_begins_where_it_is() -> None:
    task = asyncio.create_task(outer())
    await asyncio.sleep(0)
    assert "in outer\n    async for _ in middle():" in stack_of_task(task)
    task.cancel()


async def test_a_task_that_has_ended_has_no_stack() -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    await task
    assert stack_of_task(task) == ""


def recurse(depth: int, gate: threading.Event) -> None:
    if depth:
        recurse(depth - 1, gate)
    else:
        gate.wait(30)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.mark.parametrize("depth", [3, 400])
async def test_the_stack_of_a_thread_is_bounded_and_ends_where_it_is(gate: threading.Event, depth: int) -> None:
    thread = threading.Thread(target=recurse, args=(depth, gate))
    thread.start()
    assert thread.ident is not None
    await until(lambda: "gate.wait(30)" in stack_of_thread(thread.ident or 0))
    assert len(stack_of_thread(thread.ident)) <= STACK_LENGTH + 100
    gate.set()
    await asyncio.to_thread(thread.join)
    assert stack_of_thread(thread.ident) == ""
