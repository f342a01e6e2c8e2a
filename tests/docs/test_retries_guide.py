"""The examples of the guide to retries, as modules of tasks that are run."""

from __future__ import annotations

from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from steady_queue.testing import run_pending

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_example_of_attempts(database: str, example_of: Callable[..., ModuleType]) -> None:
    module: Any = example_of("retries", 0)
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


def test_the_example_of_requests(database: str, example_of: Callable[..., ModuleType]) -> None:
    module: Any = example_of("retries", 0)
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


def test_the_example_of_a_backoff(example_of: Callable[..., ModuleType]) -> None:
    module: Any = example_of("retries", 1)
    error = ConnectionError()
    assert module.ask_the_server(error, SimpleNamespace(attempts=2)) == 60
    error.retry_after = 7  # type: ignore[attr-defined]
    assert module.ask_the_server(error, SimpleNamespace(attempts=2)) == 7
    assert module.publish.backoff is module.ask_the_server
