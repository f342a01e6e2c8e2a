"""Ticks of recurring tasks: each is enqueued once, and recorded."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from steady_queue.errors import StoreError
from steady_queue.store.operations.maintenance import steps as maintenance
from steady_queue.store.operations.recurring.entries import add, remove, switch
from steady_queue.store.operations.recurring.ticks import EnqueuedTicks, Tick, clear_ticks, enqueue_ticks
from tests.support.databases.tables import count, counts, query
from tests.support.store.jobs import discarding, job, limited, new_job_id
from tests.support.store.recurring import MINUTE, build_tick, enqueue_tick, entry, persist_entries, read_stored
from tests.support.store.stores import SyncStore
from tests.support.threads import closing

if TYPE_CHECKING:
    from tests.support.store.stores import Store


def test_a_tick_without_a_job_is_recorded_once(store: Store) -> None:
    store.run(add(store.sql, entry()))
    (read,) = read_stored(store)
    at = store.now()
    first, second = new_job_id(), new_job_id()
    for id_, won in ((first, (first,)), (second, ())):
        assert store.run(enqueue_ticks(store.sql, [Tick("key", at, read.updated_at, id_, None)])).ids == won
    assert (count(store.alias, "recurringexecution"), count(store.alias, "job")) == (1, 0)


def test_a_tick_stores_its_job_once(store: Store) -> None:
    store.run(add(store.sql, entry()))
    at = store.now()
    first, again = job(), job()
    assert enqueue_tick(store, at, new=first) == EnqueuedTicks((first.id,))
    assert enqueue_tick(store, at, new=again) == EnqueuedTicks()
    assert store.status(first) == ["ready"]
    assert store.find(again) == []
    assert read_stored(store)[0].last_tick == at


def test_a_tick_is_not_enqueued_after_a_later_one(store: Store) -> None:
    store.run(add(store.sql, entry()))
    at = store.now()
    enqueue_tick(store, at)
    assert not enqueue_tick(store, at - MINUTE).ids
    assert enqueue_tick(store, at + MINUTE).ids
    assert count(store.alias, "job") == 2


@pytest.mark.parametrize("what", ["edited", "off", "gone"])
def test_a_tick_of_an_entry_that_is_no_longer_as_it_was_read_changes_nothing(store: Store, what: str) -> None:
    store.run(add(store.sql, entry()))
    (read,) = read_stored(store)
    query(store.alias, "UPDATE steady_queue_recurringtask SET updated_at = %s", store.now() - MINUTE)
    if what == "off":
        store.run(switch(store.sql, "key", on=False))
    elif what == "gone":
        store.run(remove(store.sql, "key"))
    assert (
        store.run(enqueue_ticks(store.sql, [build_tick("key", store.now(), read.updated_at, job())])) == EnqueuedTicks()
    )
    assert count(store.alias, "job") == count(store.alias, "recurringexecution") == 0


@pytest.mark.only_on("postgres", "mariadb")  # SQLite stores a name of any length
def test_one_bad_job_stores_no_tick_of_its_transaction(store: Store) -> None:
    store.run(add(store.sql, entry()))
    (read,) = read_stored(store)
    now = store.now()
    jobs = [job(), job(queue_name="q" * 400)]
    ticks = [build_tick("key", now + at * MINUTE, read.updated_at, new) for at, new in enumerate(jobs)]
    with pytest.raises(StoreError):
        store.run(enqueue_ticks(store.sql, ticks))
    assert count(store.alias, "job") == count(store.alias, "recurringexecution") == 0


def test_ticks_of_limited_tasks_queue_for_their_slot_or_are_discarded(store: Store) -> None:
    for key in ("limited", "discarding"):
        store.run(add(store.sql, entry(key)))
    now = store.now()
    assert enqueue_tick(store, now, key="limited", new=limited("a")).ids
    assert enqueue_tick(store, now + MINUTE, key="limited", new=limited("a")).ids
    refused = discarding("a")
    assert enqueue_tick(store, now, key="discarding", new=refused) == EnqueuedTicks(
        (refused.id,), frozenset([refused.id])
    )
    assert counts(store.alias) == {"ready": 1, "blocked": 1}
    # The tick is over all the same.
    assert not enqueue_tick(store, now, key="discarding", new=discarding("b")).ids


def test_records_are_cleared_but_for_the_last_of_each_entry(store: Store) -> None:
    for key in ("a", "b", "gone"):
        store.run(add(store.sql, entry(key)))
        for minutes in range(3):
            enqueue_tick(store, store.now() + minutes * MINUTE, key=key)
    store.run(remove(store.sql, "gone"))
    later = store.now() + timedelta(days=3)
    assert store.run(clear_ticks(store.sql, later, timedelta(days=4))) == 0
    assert store.run(clear_ticks(store.sql, later, timedelta(days=1))) == 7
    assert store.run(clear_ticks(store.sql, later, timedelta(days=1))) == 0
    assert all(found.last_tick is not None for found in read_stored(store, "a", "b"))
    assert count(store.alias, "recurringexecution") == 2


def test_racing_schedulers_store_one_job_for_each_tick(database: str) -> None:
    store = SyncStore(database)
    keys = [f"key {number:03}" for number in range(40)]
    persist_entries(store, [entry(key) for key in keys])
    read = {found.new.task_key: found.updated_at for found in read_stored(store, *keys)}
    now = store.now()
    won: list[int] = []
    start = threading.Barrier(6)

    def race(number: int) -> None:
        mine = SyncStore(database)
        start.wait()
        for minute in range(3):
            order = keys if number % 2 else keys[::-1]
            ticks = [build_tick(key, now + minute * MINUTE, read[key], job()) for key in order]
            won.append(len(mine.run(enqueue_ticks(mine.sql, ticks)).ids))

    threads = [threading.Thread(target=closing, args=(race, number)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(won) == count(database, "job") == count(database, "recurringexecution") == 120


@pytest.mark.parametrize("keep", [timedelta(days=366 * 60), timedelta(days=366 * 3_000), timedelta.max], ids=str)
def test_records_and_jobs_may_be_kept_for_any_time(store: Store, keep: timedelta) -> None:
    store.run(add(store.sql, entry()))
    for minutes in range(2):
        enqueue_tick(store, store.now() + minutes * MINUTE)
    assert store.run(clear_ticks(store.sql, store.now(), keep)) == 0
    work = store.run(maintenance.find_work(store.sql, alive=keep, keep=keep, keep_failed=keep))
    assert (work.dead, work.old, work.old_failed) == (False, False, False)
    assert store.run(maintenance.clear_finished(store.sql, keep)) == (0, None)
    assert store.run(maintenance.clear_failed(store.sql, keep)) == (0, None)
