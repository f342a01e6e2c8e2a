"""The names of queues: those that have ready jobs, each once, whatever else there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.store.queues import queue_names
from tests.support.jobs import job, later, limited

if TYPE_CHECKING:
    from tests.support.stores import Store


def test_an_empty_database_has_no_queues(store: Store) -> None:
    assert store.run(queue_names(store.sql)) == []


def test_every_queue_with_ready_jobs_is_named_once_in_the_order_of_its_bytes(store: Store) -> None:
    names = ["b", "a", "B", "b", "é", "a_1", "", "a"]
    store.enqueue(*(job(queue_name=name) for name in names))
    assert store.run(queue_names(store.sql)) == sorted(set(names), key=str.encode)


def test_queues_whose_jobs_are_not_ready_are_not_named(store: Store) -> None:
    store.enqueue(job(queue_name="scheduled", scheduled_at=later()))
    store.enqueue(limited(queue_name="holds"), limited(queue_name="blocked"))
    assert store.run(queue_names(store.sql)) == ["holds"]
    store.claim(store.worker())
    assert store.run(queue_names(store.sql)) == []
