"""The examples of the guide to retries, as modules of tasks that are run."""

from __future__ import annotations

import sys
from datetime import timedelta
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue.testing import run_pending
from tests.docs.pages import page

if TYPE_CHECKING:
    from collections.abc import Callable

_numbers = count()


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], ModuleType]:
    """Executes an example of the guide, by its number, as a module that tasks can be found in."""

    def execute(number: int) -> ModuleType:
        # Another name each time: a process finds the module of a task once.
        module = ModuleType(f"tests.shop.retries_{next(_numbers)}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(page("docs/guides/retries.md").blocks("python")[number], vars(module))
        return module

    return execute


def test_the_example_of_attempts(database: str, example: Callable[[int], ModuleType]) -> None:
    module: Any = example(0)
    answers = iter([TimeoutError("no answer"), "paid", module.Refused("no money")])

    def charge(account: str, amount: int) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return f"{amount} {answer} by {account}"

    module.bank = SimpleNamespace(charge=charge)
    module.charge.enqueue("ada", 5)
    first, second = run_pending(including_scheduled=timedelta(seconds=3))
    assert [error.exception_class for error in first.errors] == [TimeoutError]
    assert (second.return_value, second.attempts) == ("5 paid by ada", 2)
    module.charge.enqueue("ada", 5)
    (refused,) = run_pending(including_scheduled=True)
    assert refused.is_finished


def test_the_example_of_requests(database: str, example: Callable[[int], ModuleType]) -> None:
    module: Any = example(0)
    answers = iter([429, 202, 200, 404])
    module.web = SimpleNamespace(
        get=lambda url: SimpleNamespace(status=next(answers), retry_after=10, text="the report")
    )
    module.fetch.enqueue("https://example.com/")
    *_, last = run_pending(including_scheduled=timedelta(minutes=6))
    assert last.return_value == "the report (attempt 2)"
    module.fetch.enqueue("https://example.com/")
    (gone,) = run_pending(including_scheduled=True)
    assert "GiveUp: https://example.com/ does not exist" in gone.errors[0].traceback


def test_the_example_of_a_backoff(example: Callable[[int], ModuleType]) -> None:
    module: Any = example(1)
    error = ConnectionError()
    assert module.ask_the_server(error, SimpleNamespace(attempts=2)) == 60
    error.retry_after = 7  # type: ignore[attr-defined]
    assert module.ask_the_server(error, SimpleNamespace(attempts=2)) == 7
    assert module.publish.backoff is module.ask_the_server
