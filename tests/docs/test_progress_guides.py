"""The examples of the guides to progress and to interruption, as modules of tasks that are run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import SteadyQueueResult
from steady_queue.aio import running
from steady_queue.testing import run_pending
from tests.support.runtime import until, wait_for_results, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@pytest.mark.usually_on("sqlite")
def test_the_example_of_progress(database: str, example_of: Callable[..., ModuleType]) -> None:
    example_of("progress", 0).upload(["a", "", "c"], "north")
    (result,) = run_pending(raising=True)
    assert isinstance(result, SteadyQueueResult)
    assert result.metadata == {"tenant": "north", "rows": 3}
    assert result.progress is not None
    assert (result.progress.done, result.progress.fraction, result.progress.message) == (3, 1.0, "row 3")
    assert [line.message for line in result.log] == ["row 2 is empty"]


@pytest.mark.anyio
@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize(("number", "name"), [(0, "import_rows"), (1, "import_exactly_once")])
async def test_the_examples_of_sync_interruption(
    database: str, example_of: Callable[..., ModuleType], number: int, name: str
) -> None:
    module = example_of("interruption", number)
    stored: list[str] = []
    processes: list[Any] = []

    def store_row(row: str) -> None:
        stored.append(row)
        if len(stored) == 2:
            processes[0].stop_by_signal()
            while not processes[0].deadlines.requested.is_set():
                pass

    vars(module).update(read_rows=lambda path: list(path), store_row=store_row)
    result = await getattr(module, name).aenqueue("abcd")
    async with running(worker()) as process:
        processes.append(process)
        await until(process.deadlines.requested.is_set)
    assert stored == ["a", "b"]
    async with running(worker()):
        await wait_for_results(result)
    assert (stored, result.return_value, result.attempts) == (["a", "b", "c", "d"], 4, 1)


@pytest.mark.anyio
@pytest.mark.usually_on("sqlite")
async def test_the_example_of_async_interruption(database: str, example_of: Callable[..., ModuleType]) -> None:
    module = example_of("interruption", 0)
    counted: list[str] = []
    processes: list[Any] = []

    async def count_words(page: str) -> int:
        counted.append(page)
        if len(counted) == 2:
            processes[0].stop()
        return 10

    vars(module).update(count_words=count_words)
    result = await module.crawl.aenqueue(["one", "two", "three"])
    async with running(worker()) as process:
        processes.append(process)
        await until(process.deadlines.requested.is_set)
    assert counted == ["one", "two"]
    async with running(worker()):
        await wait_for_results(result)
    assert (counted, result.return_value, result.attempts) == (["one", "two", "three"], 30, 1)
