"""Results of rows that cannot be read: placeholders instead of errors, and error classes imported on demand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue.errors import DeserializationError
from steady_queue.jobs.compat import TaskResultStatus
from tests.jobs.conftest import Look, by_get
from tests.shop import tasks
from tests.support.databases.tables import query
from tests.support.store.manual_worker import Worker

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult

pytestmark = pytest.mark.contract


# -- errors -----------------------------------------------------------------------------------------------------------


def test_the_class_of_an_error_is_imported_only_when_asked_for(database: str, look: Look) -> None:
    sys.modules.pop("tests.shop.errors", None)
    made = type("OutOfStock", (Exception,), {"__module__": "tests.shop.errors"})
    result = tasks.add.enqueue(1)
    worker = Worker(database)
    worker.fail(worker.claim(), made("none left"))
    (error,) = look(result).errors
    assert error.exception_class_path == "tests.shop.errors.OutOfStock"
    assert "tests.shop.errors" not in sys.modules
    assert error.exception_class.__module__ == "tests.shop.errors"


@pytest.mark.parametrize(
    ("module", "name", "kind"),
    [("tests.shop.models", "Customer", ValueError), ("tests.shop.nowhere", "Gone", ImportError)],
)
def test_a_path_that_leads_to_no_exception_is_refused_when_asked_for(
    database: str, module: str, name: str, kind: type[Exception]
) -> None:
    result = tasks.add.enqueue(1)
    worker = Worker(database)
    worker.fail(worker.claim(), type(name, (Exception,), {"__module__": module})())
    (error,) = by_get(result).errors
    with pytest.raises(kind, match=name if kind is ValueError else "nowhere"):
        _ = error.exception_class


# -- rows that something else has written to --------------------------------------------------------------------------

SUCCESSFUL = TaskResultStatus.SUCCESSFUL
UNREADABLE = "steady_queue.errors.DeserializationError"

ERROR = '{"exception_class_path": "builtins.KeyError", "message": "no", "traceback": "Traceback: no"}'


def spoiled(database: str, column: str, value: Any) -> TaskResult[Any]:
    """The result of a finished job, with this value in one of its columns."""
    result = tasks.add.enqueue(1, b=2)
    worker = Worker(database)
    worker.finish(worker.claim(), "3")
    query(database, f"UPDATE steady_queue_job SET {column} = %s", value)
    return result


@pytest.mark.parametrize(
    ("stored", "paths"),
    [
        ("garbage", [UNREADABLE]),
        ('{"exception_class_path": "builtins.KeyErr', [UNREADABLE]),
        ("null", [UNREADABLE]),
        ("[1, 2]", [UNREADABLE]),
        ("[" * 100_000, [UNREADABLE]),
        ("\n \n", [UNREADABLE]),
        ("Traceback:\n  line\n\nValueError: no", [UNREADABLE]),
        (f"{ERROR}\ngarbage\nmore\n{ERROR}", ["builtins.KeyError", UNREADABLE, "builtins.KeyError"]),
        (f"garbage\n{ERROR}\n", [UNREADABLE, "builtins.KeyError", UNREADABLE]),
        ("{}", [UNREADABLE]),
        ('{"exception_class_path": 5, "traceback": "T"}', [UNREADABLE]),
        ('{"exception_class_path": "builtins.OSError", "traceback": null}', ["builtins.OSError"]),
    ],
    ids=lambda given: str(given)[:30],
)
def test_errors_that_cannot_be_read_have_a_placeholder_among_the_others(
    database: str, look: Look, stored: str, paths: list[str]
) -> None:
    seen = look(spoiled(database, "errors", stored))
    assert [error.exception_class_path for error in seen.errors] == paths
    for error in seen.errors:
        assert isinstance(error.traceback, str)
        assert issubclass(error.exception_class, Exception)
        assert len(error.traceback) < 1_000
    if "garbage" in stored:
        assert any("cannot be read: garbage" in error.traceback for error in seen.errors)
    assert (seen.status, seen.return_value, seen.args, seen.kwargs) == (SUCCESSFUL, 3, [1], {"b": 2})


@pytest.mark.parametrize("stored", ["garbage", "", "{}", "[1]", '[1, "x", {}]', "[" * 100_000, "[1, [1], {}] more"])
def test_arguments_that_cannot_be_read_are_empty_and_named_in_the_errors(
    database: str, look: Look, stored: str
) -> None:
    seen = look(spoiled(database, "arguments", stored))
    assert (seen.status, seen.return_value, seen.args, seen.kwargs) == (SUCCESSFUL, 3, [], {})
    (error,) = seen.errors
    assert error.exception_class is DeserializationError
    assert error.traceback.startswith("the column 'arguments' of the task cannot be read: ")


@pytest.mark.parametrize("stored", ["garbage", "", "{", "1 2", "NaN", "[" * 100_000])
def test_a_return_value_that_cannot_be_read_is_none_and_named_in_the_errors(
    database: str, look: Look, stored: str
) -> None:
    seen = look(spoiled(database, "return_value", stored))
    assert (seen.status, seen.return_value, seen.args, seen.kwargs) == (SUCCESSFUL, None, [1], {"b": 2})
    (error,) = seen.errors
    assert error.exception_class is DeserializationError
    assert error.traceback.startswith("the column 'return_value' of the task cannot be read: ")


def test_worker_ids_may_be_any_text(database: str, look: Look) -> None:
    seen = look(spoiled(database, "worker_ids", "{\n😀"))
    assert (seen.worker_ids, seen.attempts, seen.errors) == (["{", "😀"], 2, [])


@pytest.mark.only_on("sqlite")  # the others keep to the types of their columns
@pytest.mark.parametrize("column", ["enqueued_at", "started_at", "last_attempted_at", "scheduled_at"])
def test_a_time_that_cannot_be_read_is_none(database: str, look: Look, column: str) -> None:
    seen = look(spoiled(database, column, "yesterday"))
    assert (seen.status, seen.return_value) == (SUCCESSFUL, 3)
    assert (seen.task.run_after if column == "scheduled_at" else getattr(seen, column)) is None
    assert seen.errors == []


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("column", ["errors", "worker_ids", "arguments", "return_value"])
def test_bytes_that_are_no_text_are_named_in_the_errors(database: str, look: Look, column: str) -> None:
    seen = look(spoiled(database, column, b"\xff\x00"))
    (error,) = seen.errors
    assert error.traceback.startswith(f"the column {column!r} of the task cannot be read: ")
