"""Guards for scale: a page reads a few hundred rows of large tables, by their indexes, and sorts none of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from steady_queue.db.transactions import run_one
from steady_queue.monitoring import queue_list
from steady_queue.monitoring.jobs.detail import find_detail
from steady_queue.monitoring.jobs.pages import PAGE_WINDOW_ROWS, find_page
from steady_queue.monitoring.jobs.search import JobSearch
from steady_queue.monitoring.queue_list import read_queue, read_queues
from steady_queue.monitoring.state_counts import read_state_counts
from steady_queue.monitoring.states import JobState
from steady_queue.monitoring.statistics import read_hour
from steady_queue.monitoring.usage import read_usage
from steady_queue.store.operations.monitoring.capped_counts import count_ready
from steady_queue.store.operations.monitoring.limits import count_slots
from tests.support.databases.tables import query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 10_000
#: Rows that a page may read of one table: a first window, and the rows of the page.
MOST_ROWS = 1_000
#: It has only the running tasks, and is sorted by their times.
SMALL = ("claimedexecution", "process", "pause", "cancellation")
_ID = (
    "(lpad(to_hex((extract(epoch FROM now() - ({rows} - n) * interval '1 second') * 1000)::bigint), 12, '0')"
    " || '7000800{place}' || lpad(to_hex(n), 12, '0'))::uuid"
)
_AT = "now() - ({rows} - n) * interval '1 second'"
_STATES = {
    "ready": {"queue_name": "'queue ' || n % 5", "lane": "n % 2", "priority": "n % 3"},
    "failed": {"failed_at": _AT, "exception_class": "'ValueError'", "message": "'it broke'", "kind": "n % 4"},
    "scheduled": {"scheduled_at": "now() + n * interval '1 second'", "priority": "n % 3"},
    "blocked": {"concurrency_key": "'key ' || n % 100", "priority": "n % 3"},
}


def fill(alias: str) -> None:
    """Insert tasks of every state that may have very many."""
    # The dead rows of tests before this one would change plans. The transaction of the test is rolled back.
    tables = ", ".join(f"steady_queue_{name}" for name in ("job", *(f"{state}execution" for state in _STATES)))
    query(alias, f"TRUNCATE TABLE {tables}")
    for place, state in enumerate(("finished", *_STATES), 1):
        values = {"rows": ROWS, "place": place}
        columns = {
            "id": _ID,
            "queue_name": "'queue ' || n % 5",
            "task_path": "'shop.tasks.task_' || n % 9",
            "arguments": """'[1,["x"],{}]'""",
            "priority": "n % 3",
            "lane": "n % 2",
            "backend": "'default'",
            "enqueued_at": _AT,
            "finished_at": _AT if state == "finished" else "NULL",
            "retries": "n % 2",
            "concurrency_key": "'key ' || n % 100" if state == "blocked" else "NULL",
        }
        _insert(alias, "job", columns, values)
        if state in _STATES:
            _insert(alias, f"{state}execution", {"job_id": _ID, **_STATES[state]}, values)
    query(alias, "ANALYZE")
    # With the default, reading all of these tables costs less than a few hundred lookups; of larger ones it does not.
    query(alias, "SET LOCAL random_page_cost = 1.1")


def _insert(alias: str, table: str, columns: dict[str, str], values: dict[str, int]) -> None:
    places, expressions = ", ".join(columns), ", ".join(columns.values())
    for name, value in values.items():
        expressions = expressions.replace(f"{{{name}}}", str(value))
    text = f"INSERT INTO steady_queue_{table} ({places}) SELECT {expressions} FROM generate_series(1, {ROWS}) AS s(n)"
    with connections[alias].cursor() as cursor:
        cursor.execute(text, None)


def plan_nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from plan_nodes(child)


def rows_read(alias: str, statements: list[str]) -> dict[str, int]:
    """How many rows the statements read of each table, and sort ("sorted")."""
    found: dict[str, int] = {}
    for statement in statements:
        if not statement.startswith(("SELECT", "WITH")):
            continue
        with connections[alias].cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", None)
            tree = cursor.fetchone()[0]
        for node in plan_nodes((json.loads(tree) if isinstance(tree, str) else tree)[0]["Plan"]):
            rows = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            name = node.get("Relation Name", "").removeprefix("steady_queue_")
            name = "sorted" if node["Node Type"] == "Sort" else "" if name in SMALL else name
            if name:
                found[name] = found.get(name, 0) + int(rows)
    return found


@pytest.mark.only_on("postgres")
def test_every_list_and_page_reads_few_rows_of_large_tables(database: str) -> None:
    searches = [JobSearch(state=state) for state in (None, *JobState)]
    searches += [JobSearch(state=JobState.READY, queue="queue 3"), JobSearch(state=JobState.BLOCKED, key="key 7")]
    unindexed: list[dict[str, Any]] = [{"queue": "queue 3"}, {"task": "shop.tasks.no_such_task"}, {"text": "none"}]
    with transaction.atomic(using=database):
        fill(database)
        for search in searches:
            first = find_page(search)
            assert len(first.rows) == (0 if search.state in (JobState.LOST, JobState.RUNNING) else 50)
            cursors: list[dict[str, Any]] = [{}, {"after": first.next_cursor}]
            second = find_page(search, after=first.next_cursor)
            cursors.append({"before": second.previous_cursor})
            for cursor in cursors:
                with CaptureQueriesContext(connections[database]) as queries:
                    find_page(search, **cursor)
                read = rows_read(database, [one["sql"] for one in queries])
                most = ROWS if search.state is JobState.LOST else MOST_ROWS
                assert {name: rows for name, rows in read.items() if rows > most} == {}, (search, cursor)
            for row in first.rows[:1]:
                with CaptureQueriesContext(connections[database]) as queries:
                    assert find_detail(row.id) is not None
                read = rows_read(database, [one["sql"] for one in queries])
                # How many tasks are before it is counted up to 10,000.
                read = {name: rows for name, rows in read.items() if name not in ("readyexecution", "blockedexecution")}
                assert {name: rows for name, rows in read.items() if rows > MOST_ROWS} == {}, search
        for state in (None, JobState.FINISHED, JobState.FAILED, JobState.SCHEDULED, JobState.BLOCKED):
            for filters in unindexed:
                search = JobSearch(state=state, **filters)
                with CaptureQueriesContext(connections[database]) as queries:
                    find_page(search)
                read = rows_read(database, [one["sql"] for one in queries])
                most = PAGE_WINDOW_ROWS + MOST_ROWS
                assert {name: rows for name, rows in read.items() if rows > most} == {}, search
        transaction.set_rollback(True, using=database)


@pytest.mark.only_on("postgres")
def test_the_overview_reads_no_more_rows_than_it_counts(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_list, "_COUNTED_ROWS", 500)
    with transaction.atomic(using=database):
        fill(database)
        since = datetime.now(UTC) - timedelta(days=1)
        parts: list[Callable[[], object]] = [
            lambda: read_state_counts(since, limit=200, looked_up=50),
            lambda: read_usage(limit=200, looked_up=50),
            read_queues,
            lambda: read_queue("queue 3"),
            read_hour,
        ]
        for part in parts:
            with CaptureQueriesContext(connections[database]) as queries:
                part()
            read = rows_read(database, [one["sql"] for one in queries])
            most = dict.fromkeys(read, MOST_ROWS) | {"failedexecution": 2 * MOST_ROWS}
            assert {name: rows for name, rows in read.items() if rows > most[name]} == {}, part
        transaction.set_rollback(True, using=database)


@pytest.mark.only_on("postgres")
def test_a_rare_queue_and_a_rare_key_are_counted_without_reading_those_of_others(database: str) -> None:
    with transaction.atomic(using=database):
        fill(database)
        for table, column in (("readyexecution", "queue_name"), ("blockedexecution", "concurrency_key")):
            is_last = f"job_id = (SELECT job_id FROM steady_queue_{table} ORDER BY job_id DESC LIMIT 1)"
            query(
                database, f"UPDATE steady_queue_{table} SET {column} = CASE WHEN {is_last} THEN 'rare' ELSE 'usual' END"
            )
        query(database, "ANALYZE")
        query(database, "SET LOCAL random_page_cost = 4")
        names = ["rare", "usual"]
        with CaptureQueriesContext(connections[database]) as queries:
            assert run_one(lambda sql: count_ready(sql, names, 20)) == [1, 21]
            assert [use.waiting for use in run_one(lambda sql: count_slots(sql, names, 20))] == [1, 20]
        read = rows_read(database, [one["sql"] for one in queries])
        assert {name: rows for name, rows in read.items() if rows > 100} == {}
        transaction.set_rollback(True, using=database)
