"""Entries of recurring tasks."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from steady_queue.store.operations.recurring.entries import (
    Entry,
    add,
    disable_broken,
    list_entries,
    put,
    remove,
    switch,
)
from steady_queue.store.operations.recurring.ticks import enqueue_ticks
from tests.support.databases.tables import count, query
from tests.support.store.jobs import job
from tests.support.store.recurring import MINUTE, build_tick, disable_entry, entry, persist_entries, read_stored
from tests.support.store.stores import SyncStore
from tests.support.threads import closing

if TYPE_CHECKING:
    from typing import Any

    from tests.support.store.stores import Store


def test_static_entries_become_those_of_the_code_and_dynamic_ones_stay(store: Store) -> None:
    store.run(add(store.sql, entry("dynamic")))
    persist_entries(store, [entry("a"), entry("b")])
    before = {found.new.task_key: found for found in read_stored(store, "a", "b", "c", "dynamic")}
    assert before.keys() == {"a", "b", "dynamic"}
    persist_entries(store, [entry("c"), entry("b"), entry("a", schedule="0 * * * *", priority=5)])
    after = {found.new.task_key: found for found in read_stored(store, "a", "b", "c", "dynamic")}
    assert after["b"] == before["b"]
    assert after["dynamic"] == before["dynamic"]
    assert after["a"].new == entry("a", schedule="0 * * * *", priority=5)
    persist_entries(store, [])
    assert [found.new.task_key for found in read_stored(store, "a", "b", "c", "dynamic")] == ["dynamic"]


def test_entries_of_other_projects_are_neither_deleted_nor_changed(store: Store) -> None:
    theirs = [entry(key, task_path=f"other.tasks.{key}") for key in ("a", "b")]
    persist_entries(store, theirs)
    assert persist_entries(store, [entry("b"), entry("c")]) == {"b": "other.tasks.b"}
    assert [found.new for found in read_stored(store, "a", "b", "c")] == [*theirs, entry("c")]
    # The same task may have come from another project that shares the app.
    assert persist_entries(store, [entry("c", schedule="0 * * * *")]) == {}
    assert [found.new.schedule for found in read_stored(store, "c")] == ["0 * * * *"]


def test_a_thousand_entries_of_the_code_are_stored_in_few_statements(store: Store) -> None:
    wanted = [entry(f"key {number:04}") for number in range(1_000)]
    persist_entries(store, wanted)
    assert count(store.alias, "recurringtask") == 1_000
    persist_entries(store, wanted[:10])
    assert count(store.alias, "recurringtask") == 10


def test_an_entry_keeps_its_key_text_and_arguments_exactly(store: Store) -> None:
    keys = ["a", "A", "a ", "😀", "😁", "x%' OR 1=1--", "\\"]
    persist_entries(store, [entry(key, description=f"{key}\n'") for key in keys])
    assert {found.new for found in read_stored(store, *keys)} == {entry(key, description=f"{key}\n'") for key in keys}


def test_a_static_entry_that_a_person_switched_off_stays_off_and_a_broken_one_does_not(store: Store) -> None:
    persist_entries(store, [entry("off"), entry("broken")])
    assert store.run(switch(store.sql, "off", on=False))
    assert disable_entry(store, "broken")
    assert read_stored(store, "off", "broken") == []
    persist_entries(store, [entry("off"), entry("broken")])
    assert [found.new.task_key for found in read_stored(store, "off", "broken")] == ["broken"]


def test_dynamic_entries_are_added_once_edited_and_removed(store: Store) -> None:
    assert store.run(add(store.sql, entry()))
    assert not store.run(add(store.sql, entry(schedule="0 * * * *")))
    assert read_stored(store)[0].new == entry()
    assert disable_entry(store, "key")
    assert store.run(put(store.sql, entry(schedule="0 * * * *")))
    assert read_stored(store)[0].new == entry(schedule="0 * * * *")
    assert store.run(remove(store.sql, "key"))
    assert not store.run(remove(store.sql, "key"))
    assert not store.run(switch(store.sql, "key", on=True))


def test_a_static_entry_can_neither_be_edited_nor_removed_nor_added_again(store: Store) -> None:
    persist_entries(store, [entry()])
    assert not store.run(put(store.sql, entry()))
    assert not store.run(remove(store.sql, "key"))
    assert not store.run(add(store.sql, entry()))


def test_the_listing_has_the_time_and_what_is_enabled(store: Store) -> None:
    persist_entries(store, [entry("on"), entry("off")])
    store.run(switch(store.sql, "off", on=False))
    listed = store.run(list_entries(store.sql))
    assert listed.changed.keys() == {"on"}
    assert abs(listed.now - store.now()) < MINUTE


# -- since when ticks count -------------------------------------------------------------------------------------------


def aged(store: Store, key: str = "key") -> datetime:
    """Make the entry an hour old; returns since when it is."""
    since = store.now() - 60 * MINUTE
    query(store.alias, "UPDATE steady_queue_recurringtask SET updated_at = %s WHERE task_key = %s", since, key)
    return since


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_change_loses_no_tick_unless_it_is_one_of_the_schedule(store: Store, kind: str) -> None:
    def change(**options: Any) -> Entry:
        wanted = entry(**options)
        if kind == "static":
            persist_entries(store, [wanted])
        else:
            assert store.run(put(store.sql, wanted))
        return read_stored(store)[0]

    change()
    since = aged(store)
    before = read_stored(store)[0]
    assert change() == before
    others = {"description": "other", "arguments": "[1,[2],{}]", "queue_name": "mail", "priority": 7, "catch_up": "all"}
    for name, value in others.items():
        after = change(**{name: value})
        assert (after.counts_from, getattr(after.new, name)) == (since, value)
        # A scheduler that has read it before enqueues none of its ticks.
        assert after.updated_at != before.updated_at
    for times in ({"schedule": "0 * * * *"}, {"time_zone": "Asia/Tokyo"}):
        after = change(**times)
        assert after.counts_from == after.updated_at > since  # type: ignore[operator]


def test_an_entry_that_is_switched_on_counts_from_then_and_one_that_was_on_goes_on(store: Store) -> None:
    store.run(put(store.sql, entry()))
    since = aged(store)
    store.run(put(store.sql, entry(description="other")))
    assert store.run(switch(store.sql, "key", on=True))
    assert read_stored(store)[0].counts_from == since
    store.run(switch(store.sql, "key", on=False))
    store.run(switch(store.sql, "key", on=True))
    (after,) = read_stored(store)
    assert after.counts_from == after.updated_at > since  # type: ignore[operator]
    store.run(switch(store.sql, "key", on=False))
    aged(store)
    store.run(put(store.sql, entry(description="other")))
    (after,) = read_stored(store)
    assert after.counts_from == after.updated_at > since  # type: ignore[operator]


def test_an_entry_that_was_repaired_meanwhile_is_not_disabled(store: Store) -> None:
    store.run(put(store.sql, entry()))
    aged(store)
    (read,) = read_stored(store)
    store.run(put(store.sql, entry(description="mended")))
    assert not store.run(disable_broken(store.sql, "key", read.updated_at, "it broke"))
    assert read_stored(store)
    assert disable_entry(store, "key")
    assert not store.run(disable_broken(store.sql, "key", read.updated_at, "it broke"))


def test_several_that_put_the_same_key_at_once_all_succeed(database: str) -> None:
    start = threading.Barrier(4)
    wrong: list[str] = []

    def race(number: int) -> None:
        mine = SyncStore(database)
        for turn in range(8):
            start.wait()
            try:
                assert mine.run(put(mine.sql, entry(f"key {turn}", description=f"by {number}")))
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=closing, args=(race, number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert count(database, "recurringtask") == 8


@pytest.mark.only_on("sqlite")  # the others store moments only
def test_one_unreadable_time_affects_no_other_entry(store: Store) -> None:
    persist_entries(store, [entry("bad"), entry("good"), entry("static")])
    for key, text in (("bad", "garbage"), ("static", "1794852000")):
        query(store.alias, "UPDATE steady_queue_recurringtask SET updated_at = %s WHERE task_key = %s", text, key)
    listed = store.run(list_entries(store.sql)).changed
    assert isinstance(listed["good"], datetime)
    assert not isinstance(listed["bad"], datetime)
    read = {found.new.task_key: found.updated_at for found in read_stored(store, "bad", "good")}
    assert read["bad"] == listed["bad"]
    ticks = [build_tick(key, store.now(), at, job()) for key, at in read.items()]
    assert store.run(enqueue_ticks(store.sql, ticks)).ids
    assert store.run(disable_broken(store.sql, "bad", listed["bad"], "it cannot be read"))
    persist_entries(store, [entry("good"), entry("static")])
    assert isinstance(store.run(list_entries(store.sql)).changed["static"], datetime)
