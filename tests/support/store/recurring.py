"""Entries and ticks of recurring tasks for the tests of the store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from steady_queue.store.operations.recurring import entries as recurring
from steady_queue.store.operations.recurring.entries import (
    Entry,
    NewEntry,
    StoredTime,
    disable_broken,
    read_entries,
)
from steady_queue.store.operations.recurring.ticks import EnqueuedTicks, Tick, enqueue_ticks
from tests.support.store.jobs import PATH, job

if TYPE_CHECKING:
    from typing import Any

    from steady_queue.store.job import NewJob
    from tests.support.store.stores import Store

MINUTE = timedelta(minutes=1)


def entry(key: str = "key", **options: Any) -> NewEntry:
    plain = NewEntry(key, PATH, "* * * * *", None, "none", "[1,[],{}]", None, None, "")
    return plain._replace(**options)


def read_stored(store: Store, *keys: str) -> list[Entry]:
    found = store.run(read_entries(store.sql, keys or ("key",)))
    return sorted(found, key=lambda entry: entry.new.task_key)


def persist_entries(store: Store, wanted: list[NewEntry]) -> dict[str, str]:
    """By a project whose tasks are in the package `tests`."""
    return store.run(recurring.persist(store.sql, wanted, lambda path: path.startswith("tests.")))


def disable_entry(store: Store, key: str) -> bool:
    return store.run(disable_broken(store.sql, key, read_stored(store, key)[0].updated_at, "it broke"))


def build_tick(key: str, run_at: datetime, updated_at: StoredTime, new: NewJob) -> Tick:
    return Tick(key, run_at, updated_at, new.id, new)


def enqueue_tick(store: Store, run_at: datetime, *, key: str = "key", new: NewJob | None = None) -> EnqueuedTicks:
    (found,) = read_stored(store, key)
    return store.run(enqueue_ticks(store.sql, [build_tick(key, run_at, found.updated_at, new or job())]))
