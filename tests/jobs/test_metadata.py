"""Metadata: given with a call, checked when it is enqueued."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import SteadyQueueResult, enqueue_all
from steady_queue.jobs.compat import InvalidTask, task_backends
from tests.shop.tasks import add, greet
from tests.support.databases.tables import count

if TYPE_CHECKING:
    from tests.support.enqueue import Put

CIRCULAR: dict[str, Any] = {}
CIRCULAR["itself"] = CIRCULAR


def test_a_result_has_the_metadata_of_the_call(database: str, put: Put) -> None:
    result = put(greet.using(metadata={"tenant": 7, "tags": ["a", None, {"b": "ä\x00"}]}), "Ada")
    assert isinstance(result, SteadyQueueResult)
    assert result.metadata == {"tenant": 7, "tags": ["a", None, {"b": "ä\x00"}]}
    result.refresh()
    assert result.metadata == {"tenant": 7, "tags": ["a", None, {"b": "ä\x00"}]}


def test_any_mapping_can_be_metadata(database: str, put: Put) -> None:
    result = put(greet.using(metadata=MappingProxyType({"tenant": 7})), "Ada")
    result.refresh()
    assert isinstance(result, SteadyQueueResult)
    assert result.metadata == {"tenant": 7}


def test_a_call_without_metadata_has_none(database: str, put: Put) -> None:
    result = put(greet, "Ada")
    result.refresh()
    assert isinstance(result, SteadyQueueResult)
    assert result.metadata == {}


def test_the_tasks_of_one_enqueue_all_have_their_own(database: str) -> None:
    calls = [greet.using(metadata={"n": 1}).bind("Ada"), greet.bind("Alan"), add.using(metadata={"n": 3}).bind(1)]
    results = [task_backends["default"].get_result(id_) for id_ in enqueue_all(calls).ids]
    assert [result.metadata for result in results if isinstance(result, SteadyQueueResult)] == [{"n": 1}, {}, {"n": 3}]


@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ([1], "metadata must be a dict, not list"),
        ({1: 2}, "a key must be a string, not int 1"),
        ({"a": {"b": {None: 1}}}, "a key must be a string, not NoneType None"),
        ({"a": {1}}, "Object of type set is not JSON serializable"),
        ({"a": float("nan")}, "Out of range float values are not JSON compliant"),
        (CIRCULAR, "is nested too deeply, or contains itself"),
        ({"a": "x" * 70_000}, "has 70,008 bytes as JSON; the limit is 65,536"),
    ],
)
def test_metadata_that_cannot_be_stored_is_refused_and_nothing_is_stored(
    database: str, put: Put, metadata: Any, problem: str
) -> None:
    with pytest.raises(InvalidTask, match=problem):
        put(greet.using(metadata=metadata), "Ada")
    assert count(database, "job") == 0


@pytest.mark.usually_on("sqlite")
def test_one_call_with_wrong_metadata_refuses_all_of_an_enqueue_all(database: str) -> None:
    wrong: Any = {"a": object()}
    with pytest.raises(InvalidTask):
        enqueue_all([greet.bind("Ada"), greet.using(metadata=wrong).bind("Alan")])
    assert count(database, "job") == 0


def test_the_backend_declares_that_it_supports_metadata() -> None:
    assert getattr(task_backends["default"], "supports_metadata", False)
