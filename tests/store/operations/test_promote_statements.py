"""Limits in batches: how many statements a promotion takes does not depend on how many jobs there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.store.operations import dispatch as dispatching
from steady_queue.store.operations import promote as promotions
from steady_queue.store.operations.dispatch import dispatch
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.maintenance.steps import promote_stranded
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import count, counts
from tests.support.store.jobs import discarding, job, later, limited
from tests.support.store.statements import statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.job import NewJob
    from tests.support.store.stores import Store

#: SQLite is asked key by key: there is no way to it that could be saved.
ON_SERVERS = pytest.mark.only_on("postgres", "mariadb")


@ON_SERVERS
@pytest.mark.parametrize("make", [limited, discarding])
def test_a_bulk_takes_as_many_statements_with_many_jobs_as_with_few(store: Store, make: Callable[..., NewJob]) -> None:
    _, few = statements(store, enqueue(store.sql, [make(f"few {n % 10}") for n in range(20)]))
    _, many = statements(store, enqueue(store.sql, [make(f"many {n % 100}") for n in range(2_000)]))
    assert len(many) == len(few) <= 15
    assert counts(store.alias)["ready"] == 110


@ON_SERVERS
def test_a_bulk_over_as_many_keys_as_jobs_does_not_go_key_by_key(store: Store) -> None:
    _, made = statements(store, enqueue(store.sql, [limited(f"key {n}") for n in range(1_500)]))
    assert len(made) <= 40
    assert counts(store.alias) == {"ready": 1_500}


@ON_SERVERS
@pytest.mark.parametrize("make", [limited, discarding])
def test_the_dispatcher_takes_as_many_statements_with_many_jobs_as_with_few(
    store: Store, make: Callable[..., NewJob]
) -> None:
    made = []
    for size in (10, 500):
        store.enqueue(*[make(f"{size} {n % 5}", scheduled_at=later(hours=1)) for n in range(size)])
        store.ask("UPDATE steady_queue_scheduledexecution SET scheduled_at = ?", later(hours=-1))
        dispatched, said = statements(store, dispatch(store.sql, 1_000))
        assert dispatched.moved == size
        assert len(dispatched.discarded) == (size - 5 if make is discarding else 0)
        made.append(len(said))
    assert made[0] == made[1] <= 16
    assert counts(store.alias)["ready"] == 10


def test_a_dispatcher_moves_no_more_at_once_than_a_statement_takes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "JOBS_PER_STATEMENT", 4)
    store.enqueue(*[limited(f"{n}", scheduled_at=later(hours=1)) for n in range(10)])
    store.ask("UPDATE steady_queue_scheduledexecution SET scheduled_at = ?", later(hours=-1))
    assert [store.run(dispatch(store.sql, 100_000)).moved for _ in range(4)] == [4, 4, 2, 0]


@ON_SERVERS
def test_a_settle_of_many_keys_takes_as_many_statements_as_one_of_few(store: Store) -> None:
    made = []
    for size in (2, 90):
        claims = store.claimed(*[limited(f"{size} {n}") for n in range(size)])
        store.enqueue(*[limited(f"{size} {n}") for n in range(size)])
        settlement, said = statements(store, settle(store.sql, list(map(Finished, claims)), process_name="worker"))
        assert settlement.promoted == size
        made.append(len(said))
        store.settle(*map(Finished, store.claim(store.worker(), size)))
    assert made[0] == made[1]


@ON_SERVERS
def test_maintenance_looks_at_many_keys_at_once(store: Store) -> None:
    store.enqueue(*[limited(f"key {n % 300:03}", to=5) for n in range(900)], promoting=False)
    (moved, after), made = statements(store, promote_stranded(store.sql))
    assert (moved, after) == (900, None)
    assert len(made) <= 60
    assert counts(store.alias) == {"ready": 900}


def test_maintenance_goes_on_where_its_last_step_ended(store: Store) -> None:
    keys = [f"key {n:03}" for n in range(501)]
    store.enqueue(*map(limited, keys), promoting=False)
    assert store.run(promote_stranded(store.sql)) == (500, keys[499])
    assert store.run(promote_stranded(store.sql, keys[499])) == (1, None)


def test_an_unlimited_bulk_asks_nothing_about_limits(store: Store) -> None:
    _, made = statements(store, enqueue(store.sql, [job() for _ in range(100)]))
    assert len(made) <= 2
    claims = store.claim(store.worker(), 100)
    _, made = statements(store, settle(store.sql, list(map(Finished, claims)), process_name="worker"))
    assert not [statement for statement in made if "blocked" in statement.text]


def test_more_keys_and_jobs_than_one_statement_takes_get_their_slots(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promotions, "KEYS_PER_STATEMENT", 3)
    monkeypatch.setattr(promotions, "JOBS_PER_STATEMENT", 4)
    kept = [limited(f"key {n % 10}", 5) for n in range(70)]
    fussy = [discarding(f"fussy {n % 10}") for n in range(40)]
    enqueued = store.enqueue(*kept, *fussy)
    assert enqueued.discarded == {new.id for new in fussy[10:]}
    assert counts(store.alias) == {"ready": 60, "blocked": 20}
    assert count(store.alias, "semaphore") == 60
