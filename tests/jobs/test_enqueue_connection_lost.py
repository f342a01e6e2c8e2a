"""Replies lost on the network: a job is stored once, or the error says that its outcome is unknown."""

from __future__ import annotations

import re
import traceback
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import steady_queue
from steady_queue import enqueue_all
from steady_queue.errors import EnqueueError
from tests.shop import tasks
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.databases.tables import count, counts, query
from tests.support.servers import wait_until
from tests.support.servers.proxy import COMMIT, Proxy
from tests.support.threads import WAIT_TIMEOUT_SECONDS, held, while_in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.jobs.compat import Task
    from tests.support.enqueue import Put
    from tests.support.servers import MariaDB, Postgres

ON_SERVERS = pytest.mark.parametrize("queue", ["postgres", "mariadb"], indirect=True)
ON_POSTGRES = pytest.mark.parametrize("queue", ["postgres"], indirect=True)
TASKS = pytest.mark.parametrize("task", [tasks.anything, tasks.charge], ids=["plain", "limited"])

#: An argument that the proxy recognises in a request.
MARKED = "marked-argument"
IS_MARKED = re.compile(MARKED.encode())


@pytest.fixture
def proxy(queue: str, servers: dict[str, Postgres | MariaDB]) -> Iterator[Proxy]:
    """A proxy through which the queue's database is reached."""
    with Proxy(servers[queue]) as proxy:
        settings = twin_settings(queue, HOST=proxy.host, PORT=proxy.port)
        with extra_database(f"{queue}_proxied", settings) as alias, pointed_at(alias):
            yield proxy


def decisive(queue: str, task: Task[..., Any]) -> re.Pattern[bytes]:
    """The pattern of the request that commits the job."""
    is_single_statement = queue == "postgres" and task is tasks.anything
    return IS_MARKED if is_single_statement else COMMIT


def attempt(put: Put, task: Any) -> EnqueueError | None:
    """Enqueue; the error, if there was one."""
    try:
        put(task, MARKED)
    except EnqueueError as error:
        return error
    return None


@ON_SERVERS
@TASKS
def test_a_job_whose_answer_was_lost_is_stored_once(queue: str, proxy: Proxy, put: Put, task: Any) -> None:
    proxy.lose_answer(decisive(queue, task))
    result = put(task, MARKED)
    assert proxy.has_lost.is_set()
    assert counts(queue) == {"ready": 1}
    assert count(queue, "job") == 1
    with pointed_at(queue):
        assert task.get_result(result.id).args == [MARKED]


@ON_SERVERS
@TASKS
def test_a_job_whose_request_was_lost_is_stored_or_the_caller_gets_an_error(
    queue: str, proxy: Proxy, put: Put, task: Any
) -> None:
    proxy.lose_request(IS_MARKED)
    error = attempt(put, task)
    assert proxy.has_lost.is_set()
    assert (error and error.stored, counts(queue)) in [(None, {"ready": 1}), ("no", {})]


@ON_SERVERS
@TASKS
def test_when_the_server_stays_unavailable_the_error_has_the_ids_to_look_for(
    queue: str, proxy: Proxy, put: Put, task: Any
) -> None:
    proxy.lose_answer(decisive(queue, task), then_refuse=True)
    with pytest.raises(EnqueueError, match="unknown") as caught:
        put(task, MARKED)
    assert caught.value.stored == "unknown"
    (id_,) = caught.value.result_ids
    with pointed_at(queue):
        assert task.get_result(id_).args == [MARKED]


@ON_SERVERS
def test_where_finished_jobs_are_deleted_nothing_is_sent_again(
    queue: str, proxy: Proxy, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "preserve_finished_jobs", False)
    proxy.lose_answer(decisive(queue, tasks.anything))
    with pytest.raises(EnqueueError, match="unknown") as caught:
        put(tasks.anything, MARKED)
    assert (caught.value.stored, len(caught.value.result_ids)) == ("unknown", 1)
    assert count(queue, "job") == 1


@ON_SERVERS
def test_a_bulk_whose_answer_was_lost_is_stored_once(queue: str, proxy: Proxy) -> None:
    calls = [*(tasks.anything.bind(number) for number in range(50)), *(tasks.charge.bind("ada") for _ in range(3))]
    proxy.lose_answer(COMMIT)
    results = enqueue_all(calls)
    assert proxy.has_lost.is_set()
    assert count(queue, "job") == len(results) == 53
    assert counts(queue) == {"ready": 51, "blocked": 2}


@ON_SERVERS
def test_a_bulk_whose_outcome_is_unknown_names_every_result(queue: str, proxy: Proxy) -> None:
    proxy.lose_answer(COMMIT, then_refuse=True)
    with pytest.raises(EnqueueError, match="2 tasks") as caught:
        enqueue_all([tasks.charge.bind("ada"), tasks.charge.bind("alan")])
    assert caught.value.stored == "unknown"
    with pointed_at(queue):
        assert [tasks.charge.get_result(id_).args for id_ in caught.value.result_ids] == [["ada"], ["alan"]]


@ON_SERVERS
def test_no_error_contains_the_password(queue: str, put: Put) -> None:
    settings = twin_settings(queue, PASSWORD="xyzzy-plugh")
    with (
        extra_database(f"{queue}_denied", settings) as alias,
        pointed_at(alias),
        pytest.raises(EnqueueError) as caught,
    ):
        put(tasks.add, 1)
    assert caught.value.stored == "no"
    assert "xyzzy" not in "".join(traceback.format_exception(caught.value))


# -- connections that the server ends ---------------------------------------------------------------------------------

#: Statements that block inserts of jobs, list the waiting connections, and end one of them.
LOCK: dict[str, tuple[str, list[Any]]] = {
    "postgres": ("LOCK TABLE steady_queue_job IN SHARE MODE", []),
    "mariadb": ("LOCK TABLES steady_queue_job WRITE", []),
}
WAITING = {
    "postgres": "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    "mariadb": "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table%%'",
}
END = {"postgres": "SELECT pg_terminate_backend(%s)", "mariadb": "KILL %s"}


def put_and_lose_the_connection(alias: str, put: Put, task: Any) -> EnqueueError | None:
    """Enqueue, while the server ends the connection in the middle of the insert; the error, if there was one."""
    with ExitStack() as lock:
        lock.enter_context(held(alias, LOCK[alias]))
        with while_in_thread(partial(attempt, put, task)) as enqueuing:
            wait_until(lambda: bool(query(alias, WAITING[alias])), "the insert waits", WAIT_TIMEOUT_SECONDS)
            ((pid,),) = query(alias, WAITING[alias])
            query(alias, END[alias], pid)
            wait_until(
                lambda: (pid,) not in query(alias, WAITING[alias]), "the insert waits no more", WAIT_TIMEOUT_SECONDS
            )
            lock.close()
            return enqueuing.result(WAIT_TIMEOUT_SECONDS)


@ON_POSTGRES
def test_an_insert_whose_connection_the_server_ended_is_sent_again(queue: str, put: Put) -> None:
    assert put_and_lose_the_connection(queue, put, tasks.anything) is None
    assert counts(queue) == {"ready": 1}


@ON_SERVERS
def test_a_transaction_whose_connection_the_server_ended_before_the_commit_is_not_stored(queue: str, put: Put) -> None:
    error = put_and_lose_the_connection(queue, put, tasks.charge)
    assert error is not None
    assert error.stored == "no"
    assert count(queue, "job") == 0


@ON_POSTGRES
def test_a_statement_that_took_too_long_was_not_stored(queue: str, put: Put) -> None:
    settings = twin_settings(queue, options={"options": "-c statement_timeout=50"})
    with extra_database("postgres_hasty", settings) as alias, pointed_at(alias), held(queue, LOCK[queue]):
        with pytest.raises(EnqueueError) as caught:
            put(tasks.add, 1)
        assert caught.value.stored == "no"
    assert count(queue, "job") == 0
