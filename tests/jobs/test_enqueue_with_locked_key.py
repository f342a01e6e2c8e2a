"""Keys that another transaction locks: an enqueue stores the task without its slot, and returns meanwhile."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from steady_queue import enqueue_all
from steady_queue.store.operations.maintenance.steps import promote_stranded
from steady_queue.store.operations.promote import lock_id
from steady_queue.store.sql.postgres import LOCK_SPACE
from tests.shop import tasks
from tests.support.databases.tables import count, counts, query
from tests.support.store.stores import SyncStore
from tests.support.threads import WAIT_TIMEOUT_SECONDS, held, while_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steady_queue.jobs.compat import Task
    from tests.support.enqueue import Put

# SQLite has one writer: there every enqueue waits for an open transaction.
pytestmark = [pytest.mark.contract, pytest.mark.only_on("postgres", "mariadb")]

LOCKS = {
    "postgres": "SELECT pg_advisory_xact_lock({space}, {id})",
    "mariadb": "SELECT id FROM steady_queue_lockbucket WHERE id = {id} FOR UPDATE",
}
IS_FREE = {
    "postgres": "SELECT 1 FROM (SELECT pg_try_advisory_xact_lock({space}, {id}) AS is_free) t WHERE is_free",
    "mariadb": "SELECT id FROM steady_queue_lockbucket WHERE id = {id} FOR UPDATE SKIP LOCKED",
}


@contextmanager
def locked(database: str, task: Task[..., Any], key: str) -> Iterator[Callable[[], bool]]:
    """The key is locked by a transaction that stays open; the value returns whether it still is."""
    names = {"space": LOCK_SPACE, "id": lock_id(f"{task.module_path}/{key}")}

    def is_locked() -> bool:
        with while_in_thread(lambda: query(database, IS_FREE[database].format(**names))) as found:
            return not found.result(WAIT_TIMEOUT_SECONDS)

    with held(database, (LOCKS[database].format(**names), ())):
        yield is_locked
    assert not is_locked()


def promote(database: str) -> None:
    """What maintenance does every few seconds."""
    store = SyncStore(database)
    store.run(promote_stranded(store.sql))


def test_an_enqueue_does_not_wait_until_the_key_is_unlocked(
    database: str, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    with locked(database, tasks.charge, "ada") as is_locked, caplog.at_level(logging.WARNING, "steady_queue"):
        put(tasks.charge, "ada")
        assert is_locked()
        assert counts(database) == {"blocked": 1}
        put(tasks.charge, "alan")  # another key is not concerned
        assert counts(database) == {"ready": 1, "blocked": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "a concurrency key was locked for more than 2 s: its tasks are stored blocked, and maintenance promotes them"
    ]
    promote(database)
    assert counts(database) == {"ready": 2}


def test_a_bulk_is_stored_whole_while_one_of_its_keys_is_locked(database: str) -> None:
    with locked(database, tasks.charge, "ada") as is_locked:
        results = enqueue_all([tasks.add.bind(1), tasks.charge.bind("alan"), tasks.charge.bind("ada")])
        assert is_locked()
        assert counts(database) == {"ready": 1, "blocked": 2}
    assert len(set(results.ids)) == count(database, "job") == 3
    promote(database)
    assert counts(database) == {"ready": 3}


def test_after_a_commit_the_slot_of_a_locked_key_is_left_to_maintenance(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with locked(database, tasks.charge, "ada") as is_locked, caplog.at_level(logging.WARNING, "steady_queue"):
        with transaction.atomic(using=database):
            tasks.charge.enqueue("ada")
        assert is_locked()
        assert counts(database) == {"blocked": 1}
    assert ["left to maintenance" in record.getMessage() for record in caplog.records] == [True]
    promote(database)
    assert counts(database) == {"ready": 1}


def test_a_task_that_would_be_discarded_waits_instead_while_its_key_is_locked(database: str, put: Put) -> None:
    put(tasks.refresh, 1)
    with locked(database, tasks.refresh, "1") as is_locked:
        refused = put(tasks.refresh, 1)
        assert is_locked()
    assert counts(database) == {"ready": 1, "blocked": 1}
    assert tasks.refresh.get_result(refused.id).id == refused.id


@pytest.mark.only_on("postgres")
def test_a_shorter_lock_timeout_of_the_project_holds(database: str) -> None:
    """And the setting is the project's again when the enqueue is over."""
    query(database, "SET lock_timeout = '20ms'")
    asked = "SELECT current_setting('lock_timeout')"
    with locked(database, tasks.charge, "ada"):
        tasks.charge.enqueue("ada")
    assert query(database, asked) == [("20ms",)]
    query(database, "SET lock_timeout = '1min'")
    tasks.charge.enqueue("ada")
    assert query(database, asked) == [("1min",)]
