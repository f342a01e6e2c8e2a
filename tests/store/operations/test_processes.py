"""Processes: register, heartbeat, deregister. All times are the database's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from steady_queue.store.operations.processes.registration import (
    NewProcess,
    deregister,
    find_later_processes,
    find_process_health,
    heartbeat,
    register,
)
from tests.support.databases.tables import count, counts, query, row
from tests.support.store.jobs import job

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.store.stores import Store


def test_a_process_is_registered_with_all_that_is_known_of_it(store: Store) -> None:
    process = NewProcess(uuid4(), "supervisor", "name é", 2**31 + 1, "host 😀", uuid4(), '{"actors": ["worker"]}')
    before = store.now()
    store.run(register(store.sql, process))
    found = row(store.alias, "Process", process.id, "id")
    assert found is not None
    assert before <= found["started_at"] <= store.now()
    assert found.pop("started_at") == found.pop("last_heartbeat_at")
    assert found.pop("polled_at") is None
    assert found.pop("measurements") is None
    assert found == process._asdict()


def test_a_process_without_a_supervisor_is_registered(store: Store) -> None:
    worker = store.worker("alone")
    found = row(store.alias, "Process", worker, "id")
    assert found is not None
    assert (found["supervisor_id"], found["metadata"]) == (None, "{}")


def test_registering_again_renews_the_row(store: Store) -> None:
    worker = store.worker("before")
    long_ago(store)
    store.worker("after", worker)
    found = row(store.alias, "Process", worker, "id")
    assert found is not None
    assert (found["name"], found["last_heartbeat_at"].year > 2001, found["started_at"].year > 2001) == (
        "after",
        True,
        True,
    )
    assert count(store.alias, "process") == 1


def test_registering_again_keeps_the_claims(store: Store) -> None:
    worker = store.worker()
    store.claimed(job(), process_id=worker)
    store.worker("again", worker)
    assert counts(store.alias) == {"claimed": 1}


def test_a_heartbeat_renews_only_its_own_row(store: Store) -> None:
    worker, other = store.worker(), store.worker()
    long_ago(store)
    before = store.now()
    assert store.run(heartbeat(store.sql, worker)).is_known is True
    mine, others = row(store.alias, "Process", worker, "id"), row(store.alias, "Process", other, "id")
    assert mine is not None
    assert others is not None
    assert before <= mine["last_heartbeat_at"] <= store.now()
    assert mine["started_at"].year == 2001
    assert others["last_heartbeat_at"].year == 2001


@pytest.mark.parametrize("seconds", [0, 0.25, 3, 90_000])
def test_a_heartbeat_stores_how_long_ago_the_last_poll_was(store: Store, seconds: float) -> None:
    worker, other = store.worker(), store.worker()
    before = store.now()
    assert store.run(heartbeat(store.sql, worker, seconds)).is_known is True
    ago = timedelta(seconds=seconds)
    # SQLite's clock has thousandths of seconds.
    assert before - ago - timedelta(milliseconds=1) <= polled_at(store, worker) <= store.now() - ago
    assert polled_at(store, other) is None


def test_a_heartbeat_without_a_poll_keeps_what_an_earlier_one_stored(store: Store) -> None:
    worker = store.worker()
    store.run(heartbeat(store.sql, worker, 60))
    stored = polled_at(store, worker)
    assert stored is not None
    assert store.run(heartbeat(store.sql, worker, None)).is_known is True
    assert polled_at(store, worker) == stored


def test_a_heartbeat_returns_the_time_and_stores_measurements_until_the_next_ones(store: Store) -> None:
    worker = store.worker()
    before = store.now()
    for given in ('{"running": 1}', '{"running": 2}', None):
        now = store.run(heartbeat(store.sql, worker, measurements=given)).at
        assert now is not None
        assert before <= now <= store.now()
    found = row(store.alias, "Process", worker, "id")
    assert found is not None
    assert found["measurements"] == '{"running": 2}'


def test_registering_again_forgets_the_polls(store: Store) -> None:
    worker = store.worker()
    store.run(heartbeat(store.sql, worker, 1))
    store.worker("again", worker)
    assert polled_at(store, worker) is None


def test_the_vitals_of_a_host_are_returned_with_the_time(store: Store) -> None:
    store.run(register(store.sql, NewProcess(uuid4(), "process", "elsewhere", 1, "another host")))
    mine = NewProcess(uuid4(), "process", "here", 2**31 + 1, "host 😀", None, '{"actors": []}')
    store.run(register(store.sql, mine))
    before = store.now()
    (found,) = store.run(find_process_health(store.sql, "host 😀"))
    assert before <= found.now <= store.now()
    assert (found.kind, found.name, found.pid, found.hostname) == ("process", "here", 2**31 + 1, "host 😀")
    assert (found.metadata, found.polled_at) == ('{"actors": []}', None)
    assert found.last_heartbeat_at <= found.now
    store.run(heartbeat(store.sql, mine.id, 3))
    (later,) = store.run(find_process_health(store.sql, "host 😀"))
    assert later.polled_at is not None
    assert timedelta(seconds=3) <= later.now - later.polled_at < timedelta(seconds=30)


def test_heartbeats_in_quick_succession_all_find_their_row(store: Store) -> None:
    worker = store.worker()
    assert all(store.run(heartbeat(store.sql, worker)).is_known for _ in range(20))


def test_a_heartbeat_of_a_removed_process_reports_it_and_adds_no_row(store: Store) -> None:
    assert store.run(heartbeat(store.sql, uuid4())).is_known is False
    worker = store.worker()
    store.run(deregister(store.sql, worker))
    assert store.run(heartbeat(store.sql, worker)).is_known is False
    assert count(store.alias, "process") == 0


def test_deregistering_removes_only_its_own_row_and_may_be_repeated(store: Store) -> None:
    worker, other = store.worker(), store.worker()
    store.run(deregister(store.sql, worker))
    store.run(deregister(store.sql, worker))
    assert row(store.alias, "Process", worker, "id") is None
    assert row(store.alias, "Process", other, "id") is not None


def polled_at(store: Store, worker: UUID) -> Any:
    found = row(store.alias, "Process", worker, "id")
    assert found is not None
    return found["polled_at"]


def long_ago(store: Store) -> None:
    query(
        store.alias,
        "UPDATE steady_queue_process SET started_at = '2001-01-01 00:00:00', last_heartbeat_at = '2001-01-01 00:00:00'",
    )


def test_later_processes_are_those_that_started_after_one_and_are_alive(store: Store) -> None:
    first = store.worker("first")
    own = store.worker("own")
    for name in ("second", "dead", "third"):
        store.worker(name)
    minutes = {"first": 50, "own": 40, "second": 30, "dead": 20, "third": 10}
    for name, ago in minutes.items():
        query(
            store.alias, f"UPDATE steady_queue_process SET started_at = {store.sql.ago(ago * 60)} WHERE name = %s", name
        )
    query(store.alias, f"UPDATE steady_queue_process SET last_heartbeat_at = {store.sql.ago(61)} WHERE name = 'dead'")

    assert [one.name for one in store.run(find_later_processes(store.sql, own, 60))] == ["third", "second"]
    assert [one.name for one in store.run(find_later_processes(store.sql, first, 600))][-1] == "own"
    assert store.run(find_later_processes(store.sql, uuid4(), 60)) == []
