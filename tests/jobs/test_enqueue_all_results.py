"""Results and signals of a bulk enqueue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from steady_queue import enqueue_all
from steady_queue.jobs.compat import task_enqueued
from steady_queue.jobs.enqueueing import enqueued
from steady_queue.jobs.results import results
from tests.shop import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.jobs.conftest import PutAll

pytestmark = pytest.mark.contract


# -- results ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the results that have been built."""
    ids: list[str] = []
    of_new = results.of_new

    def counted(call: Any, job: Any) -> Any:
        ids.append(str(job.id))
        return of_new(call, job)

    monkeypatch.setattr(enqueued, "of_new", counted)
    return ids


def test_a_result_is_built_when_it_is_looked_at(database: str, put_all: PutAll, built: list[str]) -> None:
    stored = put_all([tasks.add.bind(number) for number in range(100)])
    assert len(stored) == len(stored.ids) == 100
    assert built == []
    assert stored[7].args == [7]
    assert stored[10:20].ids == stored.ids[10:20]
    assert built == [stored.ids[7]]


def test_results_are_a_sequence(database: str, put_all: PutAll) -> None:
    stored = put_all([tasks.add.bind(number) for number in range(5)])
    assert isinstance(stored, Sequence)
    assert (stored[-1].args, stored[0].args) == ([4], [0])
    assert [result.args for result in stored[1:4:2]] == [[1], [3]]
    assert [result.args for result in reversed(stored)] == [[4], [3], [2], [1], [0]]
    assert stored[::-1].ids == stored.ids[::-1]
    assert len(stored[5:]) == 0
    assert "5" in repr(stored)
    for outside in (5, -6):
        with pytest.raises(IndexError):
            _ = stored[outside]
    with pytest.raises(TypeError):
        _ = stored["0"]  # type: ignore[call-overload]


def test_results_show_what_was_stored_even_if_the_arguments_change_later(database: str, put_all: PutAll) -> None:
    items, options = [1], {"b": [2]}
    stored = put_all([tasks.anything.bind(items, **options)])
    items.append(99)
    options["b"].append(99)
    assert (stored[0].args, stored[0].kwargs) == ([[1]], {"b": [2]})


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def received() -> Iterator[list[Any]]:
    found: list[Any] = []

    def receiver(task_result: Any, **kwargs: Any) -> None:
        found.append(task_result)

    task_enqueued.connect(receiver)
    yield found
    assert task_enqueued.disconnect(receiver)


def test_each_call_of_a_bulk_sends_its_signal_in_order(database: str, put_all: PutAll, received: list[Any]) -> None:
    stored = put_all([tasks.add.bind(1), tasks.greet.bind("Ada"), tasks.charge.bind("ada")])
    assert [result.id for result in received] == stored.ids
    assert [result.task for result in received] == [tasks.add, tasks.greet, tasks.charge]


def test_the_signals_of_a_bulk_wait_for_the_commit(database: str, received: list[Any]) -> None:
    with transaction.atomic(using=database):
        stored = enqueue_all([tasks.add.bind(1), tasks.add.bind(2)])
        assert received == []
    assert [result.id for result in received] == stored.ids
