"""Fills a PostgreSQL database with tasks in every state, processes and statistics. The server generates the rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Queues, tasks, worker processes and concurrency keys that the rows belong to.
QUEUES, TASKS, WORKERS, KEYS = 10, 40, 4, 100
MINUTES, HOURS = 180, 24

#: The same in all statements: the ids of jobs are computed from it.
_NOW = f"'{datetime.now(UTC):%Y-%m-%d %H:%M:%S}+00'::timestamptz"
_QUEUE = f"'queue ' || lpad((n % {QUEUES})::text, 2, '0')"
_TASK = f"'shop.tasks.task_' || (n % {TASKS})"
_KEY = f"'customer ' || lpad((n % {KEYS})::text, 4, '0')"
_ARGUMENTS = json.dumps([1, [42, "a customer"], {"subject": "Your order", "token": "not shown"}])
_ERROR = json.dumps({"exception_class_path": "builtins.ValueError", "traceback": "Traceback ... " * 20})
_ACTORS = [{"kind": "worker", "queues": ["*"], "async": 1000, "thread": 50}]
_MEASUREMENTS = {"lanes": {"async": [800, 1000], "thread": [50, 50]}, "lag_seconds": 0.01, "memory_bytes": 90_000_000}


class Rows(NamedTuple):
    """How many tasks of each state there are."""

    finished: int = 1_000_000
    ready: int = 100_000
    failed: int = 10_000
    running: int = 5_000
    scheduled: int = 10_000
    blocked: int = 10_000


class Kind(NamedTuple):
    """Tasks of one state: how long ago the first was enqueued, and what their rows have."""

    number: int
    seconds: int
    #: Columns of the job, by name, and the expression of each.
    columns: dict[str, str]
    #: The table of their state, and its columns.
    table: str = ""
    state: Mapping[str, str] = MappingProxyType({})


def fill(alias: str, rows: Rows) -> None:
    """Insert the rows, and update the statistics of the planner, as autovacuum would."""
    for place, (count, kind) in enumerate(zip(rows, _kinds(rows), strict=True), 1):
        id_ = _job_id(place, count, kind.seconds)
        _insert(alias, "job", {"id": id_, **_job(count, kind.seconds), **kind.columns}, count)
        if kind.table:
            _insert(alias, kind.table, {"job_id": id_, **kind.state}, count)
    _insert_processes(alias)
    _insert_statistics(alias)
    _insert_recurring(alias)
    _execute(alias, "VACUUM ANALYZE")
    _execute(alias, "CHECKPOINT")


def _kinds(rows: Rows) -> list[Kind]:
    day, hour = 86_400, 3_600
    attempt = {
        "attempts": "1",
        "started_at": _ago(rows.finished, day),
        "last_attempted_at": _ago(rows.finished, day),
        "worker_ids": "'host:1:00000001'",
    }
    failed = {**attempt, "errors": f"'{_ERROR}'", "last_attempted_at": _ago(rows.failed, day)}
    # Of the failed tasks a fifth is of each of the other kinds, and a fifth was lost.
    classes = "CASE WHEN n % 5 = 4 THEN 'steady_queue.processes.ProcessPrunedError' ELSE 'builtins.ValueError' END"
    ready = {"queue_name": _QUEUE, "lane": "n % 2", "priority": "n % 3"}
    claimed = {"claim_id": "gen_random_uuid()", "process_id": _worker_id("n"), "claimed_at": _ago(rows.running, hour)}
    limited = {"concurrency_key": _KEY, "concurrency_limit": "1", "on_conflict": "0"}
    due = "now() + interval '1 hour' + n * interval '1 second'"
    return [
        Kind(1, day, {**attempt, "finished_at": _ago(rows.finished, day)}),
        Kind(2, 2 * hour, {}, "readyexecution", ready),
        Kind(3, day, failed, "failedexecution", {
            "failed_at": _ago(rows.failed, day), "exception_class": classes, "message": "'it broke'", "kind": "n % 4",
        }),
        Kind(4, hour, {}, "claimedexecution", claimed),
        Kind(5, hour, {"scheduled_at": due, "retries": "n % 2"}, "scheduledexecution", {
            "scheduled_at": due, "priority": "0",
        }),
        Kind(6, hour, limited, "blockedexecution", {"concurrency_key": _KEY, "priority": "0"}),
    ]  # fmt: skip


def _job(count: int, seconds: int) -> dict[str, str]:
    return {
        "queue_name": _QUEUE,
        "task_path": _TASK,
        "arguments": f"'{_ARGUMENTS}'",
        "priority": "n % 3",
        "lane": "n % 2",
        "backend": "'default'",
        "enqueued_at": _ago(count, seconds),
    }


def _ago(count: int, seconds: int) -> str:
    """The time of the n-th of so many rows, which are spread over these seconds before now."""
    return f"{_NOW} - interval '{seconds} seconds' * ({count} - n) / {count + 1}.0"


def _job_id(kind: int, count: int, seconds: int) -> str:
    """A UUIDv7 with the time of enqueueing."""
    milliseconds = f"to_hex((extract(epoch FROM {_ago(count, seconds)}) * 1000)::bigint)"
    return f"(lpad({milliseconds}, 12, '0') || '7000800' || '{kind}' || lpad(to_hex(n), 12, '0'))::uuid"


def _worker_id(number: str) -> str:
    return f"('00000000-0000-4000-8000-' || lpad((1 + {number} % {WORKERS})::text, 12, '0'))::uuid"


def _insert(alias: str, table: str, columns: dict[str, str], count: int) -> None:
    _execute(
        alias,
        f"INSERT INTO steady_queue_{table} ({', '.join(columns)})"
        f" SELECT {', '.join(columns.values())} FROM generate_series(0, {count - 1}) AS s(n)",
    )


def _insert_processes(alias: str) -> None:
    metadata = json.dumps({"actors": _ACTORS, "version": "1.0"})
    columns = {
        "id": _worker_id("n"),
        "kind": "'worker'",
        "name": "'host:' || n",
        "pid": "1000 + n",
        "hostname": "'host'",
        "metadata": f"'{metadata}'",
        "started_at": "now() - interval '1 day'",
        # Alive for as long as the benchmark runs.
        "last_heartbeat_at": "now() + interval '1 day'",
        "polled_at": "now() + interval '1 day'",
        "measurements": f"'{json.dumps(_MEASUREMENTS)}'",
    }
    _insert(alias, "process", columns, WORKERS)


def _insert_statistics(alias: str) -> None:
    """The minutes of each worker and task, and the hours of each task."""
    sums = {
        "started": "50", "finished": "45", "failed": "2", "retried": "3",
        "run_milliseconds": "5000", "longest_run_milliseconds": "900",
        "waits": "50", "wait_milliseconds": "9000", "longest_wait_milliseconds": "1500",
        "queue_name": _QUEUE, "task_path": _TASK,
    }  # fmt: skip
    minute = f"date_trunc('minute', now()) - interval '1 minute' * (n / {TASKS * WORKERS})"
    process = f"('00000000-0000-4000-8000-' || lpad((1 + n / {TASKS} % {WORKERS})::text, 12, '0'))::uuid"
    minutes = {"seconds": "60", "starts_at": minute, "process_id": process}
    _insert(alias, "taskstatistics", {**minutes, **sums}, MINUTES * TASKS * WORKERS)
    hour = f"date_trunc('hour', now()) - interval '1 hour' * (n / {TASKS})"
    hours = {"seconds": "3600", "starts_at": hour, "process_id": "'00000000-0000-0000-0000-000000000000'::uuid"}
    _insert(alias, "taskstatistics", {**hours, **sums}, HOURS * TASKS)


def _insert_recurring(alias: str) -> None:
    columns = {
        "task_key": "'every hour ' || n",
        "task_path": _TASK,
        "schedule": "(n % 60) || ' * * * *'",
        "arguments": f"'{_ARGUMENTS}'",
        "created_at": "now()",
        "updated_at": "now()",
    }
    _insert(alias, "recurringtask", columns, 50)


def _execute(alias: str, text: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(text)
