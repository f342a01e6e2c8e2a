"""The hot operations on PostgreSQL: enqueue, claim and dispatch; the steps of promote are one statement each.

The statements of settle are in postgres_settle.py.

Every statement is an index lookup, in the order of the index.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from steady_queue.store.job import (
    ANY_PRIORITY,
    CLAIM_JOB_COLUMNS,
    CLAIM_TYPES,
    FROM_ANY_PAUSE,
    JOB_COLUMNS,
    PLAIN_JOB_COLUMNS,
    PLAIN_JOB_REST,
)
from steady_queue.store.names import NOTIFY_CHANNEL
from steady_queue.store.sql import postgres_settle
from steady_queue.store.sql.postgres_task_data import PostgresTaskData
from steady_queue.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.job import NewJob
    from steady_queue.store.operations.claim import ClaimRequest
    from steady_queue.store.operations.promote import Grant
    from steady_queue.store.outcome import Finished, Outcome

_TYPES = {
    "id": "uuid",
    "priority": "smallint",
    "lane": "smallint",
    "enqueued_at": "timestamptz",
    "scheduled_at": "timestamptz",
    "concurrency_limit": "int",
    "on_conflict": "smallint",
    "overrun_after": "bigint",
    "expires_at": "timestamptz",
    "unique_until": "smallint",
}


class PostgresStatements(PostgresTaskData):
    """See `SingleStatements`."""

    # -- enqueue ------------------------------------------------------------------------------------------------------

    def insert_ready(self, jobs: Sequence[NewJob]) -> Statement:
        return _insert(jobs, "readyexecution", ("queue_name", "lane", "priority"))

    def insert_and_notify(self, job: NewJob) -> Statement:
        plain = self.insert_ready([job])
        return Statement(f"{plain.text} RETURNING pg_notify('{NOTIFY_CHANNEL}', '')", plain.params, ".")

    def insert_scheduled(self, jobs: Sequence[NewJob]) -> Statement:
        return _insert(jobs, "scheduledexecution", ("scheduled_at", "priority"))

    def insert_blocked(self, jobs: Sequence[NewJob]) -> Statement:
        return _insert(jobs, "blockedexecution", ("concurrency_key", "priority"))

    # -- promote ------------------------------------------------------------------------------------------------------

    def find_blocked(self, wants: Mapping[str, int]) -> Statement:
        return Statement(
            "SELECT k.key, b.job_id, j.concurrency_limit, j.task_path,"
            " j.expires_at <= statement_timestamp() AND j.attempts = 0"
            " FROM unnest($1::text[], $2::int[]) AS k(key, count)"
            " CROSS JOIN LATERAL (SELECT job_id, priority FROM steady_queue_blockedexecution"
            " WHERE concurrency_key = k.key ORDER BY priority DESC, job_id LIMIT k.count FOR UPDATE SKIP LOCKED) b"
            " JOIN steady_queue_job j ON j.id = b.job_id ORDER BY b.priority DESC, b.job_id",
            (list(wants), list(wants.values())),
            returns=".u...",
        )

    def grant(self, grants: Sequence[Grant]) -> Statement:
        return Statement(
            "WITH granted AS (SELECT * FROM unnest($1::uuid[], $2::text[], $3::int[]) AS g(job_id, key, slot)),"
            " unblocked AS (DELETE FROM steady_queue_blockedexecution b USING granted g WHERE b.job_id = g.job_id),"
            " slots AS (INSERT INTO steady_queue_semaphore (job_id, concurrency_key, slot, acquired_at)"
            " SELECT job_id, key, slot, statement_timestamp() FROM granted)"
            " INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority)"
            " SELECT j.id, j.queue_name, j.lane, j.priority FROM granted g JOIN steady_queue_job j ON j.id = g.job_id",
            tuple(list(column) for column in zip(*grants, strict=True)),
        )

    # -- dispatch -----------------------------------------------------------------------------------------------------

    def move_due(self, limit: int) -> Statement:
        return Statement(_MOVE_DUE, (limit,), returns=".tt")

    # -- claim --------------------------------------------------------------------------------------------------------

    def claim(self, *requests: ClaimRequest) -> Statement:
        names: list[str] = []
        parts: list[tuple[int, int]] = []
        for request in requests:
            # Mostly all lanes have the same queues.
            if request.queues != requests[0].queues or not parts:
                names.extend(request.queues)
                parts.append((len(names) - len(request.queues) + 1, len(names)))
            else:
                parts.append(parts[0])
        params = (*_lanes(requests), *map(list, zip(*parts, strict=True)), names)
        return Statement(_CLAIM_BY_QUEUE, params, CLAIM_TYPES)

    def claim_from_all(self, *requests: ClaimRequest) -> Statement:
        return Statement(_CLAIM_FROM_ALL, _lanes(requests), CLAIM_TYPES)

    # -- settle -------------------------------------------------------------------------------------------------------

    def finish_claims(
        self, outcomes: Sequence[Finished], *, process_name: str, preserve: bool, by_owner: bool
    ) -> Statement:
        return postgres_settle.finish_claims(outcomes, process_name, preserve, by_owner)

    def end_claims(
        self, outcomes: Sequence[Outcome], *, process_name: str, preserve: bool, by_owner: bool
    ) -> Statement:
        return postgres_settle.end_claims(outcomes, process_name, preserve, by_owner)


def _insert(jobs: Sequence[NewJob], table: str, columns: tuple[str, ...]) -> Statement:
    """Insert jobs and their first execution rows, from arrays or, for a single job, from plain values."""
    if len(jobs) == 1:
        # The parameters of a plain job are the first of all its columns.
        width = len(PLAIN_JOB_COLUMNS) if jobs[0][len(PLAIN_JOB_COLUMNS) :] == PLAIN_JOB_REST else len(JOB_COLUMNS)
        return Statement(_insert_one(table, columns, width), jobs[0][:width])
    # Values that the jobs have in common, which are most, are sent once: 14 µs instead of 22 for each job (measured).
    given = dict(zip(JOB_COLUMNS, zip(*jobs, strict=True), strict=True))
    common = frozenset(name for name in _OFTEN_COMMON if given[name].count(given[name][0]) == len(jobs))
    values = [column[0] if name in common else list(column) for name, column in given.items()]
    return Statement(_insert_many(table, columns, common), values)


_OFTEN_COMMON = tuple(name for name in JOB_COLUMNS if name not in ("id", "arguments"))


@lru_cache
def _insert_one(table: str, columns: tuple[str, ...], width: int) -> str:
    names = JOB_COLUMNS[:width]
    marks = {name: f"${at}::{_TYPES.get(name, 'text')}" for at, name in enumerate(names, 1)}
    return (
        f"WITH job AS (INSERT INTO steady_queue_job ({', '.join(names)}) VALUES ({', '.join(marks.values())}))"
        f" INSERT INTO steady_queue_{table} (job_id, {', '.join(columns)})"
        f" VALUES ({', '.join(marks[name] for name in ('id', *columns))})"
    )


@lru_cache(maxsize=512)
def _insert_many(table: str, columns: tuple[str, ...], common: frozenset[str]) -> str:
    """Arrays for the columns that differ from job to job, one value for those in `common`."""
    marks = {name: f"${at}::{_TYPES.get(name, 'text')}" for at, name in enumerate(JOB_COLUMNS, 1)}
    arrays = {name: f"{mark}[]" for name, mark in marks.items() if name not in common}
    values = {name: marks[name] if name in common else name for name in JOB_COLUMNS}
    return (
        f"WITH given AS (SELECT * FROM unnest({', '.join(arrays.values())}) AS g({', '.join(arrays)})),"
        f" job AS (INSERT INTO steady_queue_job ({', '.join(JOB_COLUMNS)})"
        f" SELECT {', '.join(values.values())} FROM given)"
        f" INSERT INTO steady_queue_{table} (job_id, {', '.join(columns)})"
        f" SELECT id, {', '.join(values[name] for name in columns)} FROM given"
    )


def _lanes(requests: Sequence[ClaimRequest]) -> tuple[UUID, list[int], list[int]]:
    return requests[0].process_id, [request.lane for request in requests], [request.capacity for request in requests]


def _claim_text(candidates: str, *, reports_pause: bool) -> str:
    """`candidates` selects the ids of the jobs to claim, in order, and locks their rows.

    `reports_pause`: the last row has only NULLs if any queue is paused.
    """
    job_columns = ", ".join(f"j.{name}" for name in CLAIM_JOB_COLUMNS)
    claimed = (
        f"SELECT p.job_id, p.claim_id, statement_timestamp(), {job_columns} FROM picked p"
        " JOIN steady_queue_job j ON j.id = p.job_id ORDER BY p.place"
    )
    if reports_pause:
        nulls = ", ".join(["NULL"] * len(CLAIM_TYPES))
        claimed = f"({claimed}) UNION ALL (SELECT {nulls} {FROM_ANY_PAUSE})"
    return (
        "WITH picked AS MATERIALIZED (SELECT job_id, gen_random_uuid() AS claim_id, row_number() OVER () AS place"
        f" FROM ({candidates}) c),"
        " unqueued AS (DELETE FROM steady_queue_readyexecution r USING picked p WHERE r.job_id = p.job_id),"
        " mine AS (INSERT INTO steady_queue_claimedexecution (job_id, claim_id, process_id, claimed_at)"
        f" SELECT job_id, claim_id, $1::uuid, statement_timestamp() FROM picked) {claimed}"
    )


_IS_KNOWN = "EXISTS (SELECT 1 FROM steady_queue_process o WHERE o.id = $1::uuid)"
_IN_ORDER = " ORDER BY r.priority DESC, r.job_id LIMIT l.room FOR UPDATE OF r SKIP LOCKED"
_CLAIM_FROM_ALL = _claim_text(
    "SELECT t.job_id FROM unnest($2::smallint[], $3::int[]) AS l(lane, room) CROSS JOIN LATERAL ("
    f"SELECT r.job_id FROM steady_queue_readyexecution r WHERE r.lane = l.lane AND {ANY_PRIORITY}"
    f" AND NOT EXISTS (SELECT 1 FROM steady_queue_pause) AND {_IS_KNOWN}{_IN_ORDER}) t",
    reports_pause=True,
)
# The limit around the queues ends their scan when there are enough jobs: later queues are neither read nor locked.
# The pause is looked up once for the name of a queue: a condition on its rows would be evaluated for each of them.
_CLAIM_BY_QUEUE = _claim_text(
    "SELECT t.job_id FROM unnest($2::smallint[], $3::int[], $4::int[], $5::int[]) AS l(lane, room, first, last)"
    " CROSS JOIN LATERAL (SELECT u.job_id"
    " FROM unnest(($6::text[])[l.first:l.last]) WITH ORDINALITY AS q(name, place) CROSS JOIN LATERAL ("
    "SELECT r.job_id FROM steady_queue_readyexecution r WHERE r.queue_name = q.name AND r.lane = l.lane"
    " AND NOT EXISTS (SELECT 1 FROM steady_queue_pause p WHERE p.queue_name = q.name)"
    f" AND {_IS_KNOWN}{_IN_ORDER}) u LIMIT l.room) t",
    reports_pause=False,
)

_DUE_ORDER = "ORDER BY s.scheduled_at, s.priority DESC, s.job_id"
#: Limited and expired jobs are not moved, but count among the first: `dispatch` moves them before later jobs.
_MOVE_DUE = (
    "WITH due AS MATERIALIZED (SELECT s.job_id FROM steady_queue_scheduledexecution s"
    f" WHERE s.scheduled_at <= statement_timestamp() {_DUE_ORDER} LIMIT $1 FOR UPDATE SKIP LOCKED),"
    # With the limit each job is looked up: on new tables the planner would scan all jobs for those without a key.
    " plain AS MATERIALIZED (SELECT u.* FROM due d CROSS JOIN LATERAL (SELECT j.id, j.queue_name, j.lane, j.priority"
    " FROM steady_queue_job j WHERE j.id = d.job_id AND j.concurrency_key IS NULL"
    " AND (j.expires_at <= statement_timestamp() AND j.attempts = 0) IS NOT TRUE LIMIT 1) u),"
    " unscheduled AS (DELETE FROM steady_queue_scheduledexecution s USING plain p WHERE s.job_id = p.id),"
    " moved AS (INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority)"
    " SELECT id, queue_name, lane, priority FROM plain)"
    " SELECT (SELECT count(*) FROM plain), (SELECT s.scheduled_at FROM steady_queue_scheduledexecution s"
    # All of this sees the rows as they were before: those that are moved have to be skipped.
    " WHERE s.scheduled_at > '-infinity' AND s.job_id NOT IN (SELECT id FROM plain)"
    f" {_DUE_ORDER} LIMIT 1), statement_timestamp()"
)
