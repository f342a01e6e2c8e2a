"""PostgreSQL: each hot operation is one statement, so it needs one round trip and no transaction around it.

Every statement is an index lookup. It must keep that plan when the table was analyzed while it was empty, so other
kinds of plans are disabled on Steady Queue's own connections: see `SETTINGS`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from steady_queue.store.job import FROM_ANY_PAUSE
from steady_queue.store.names import LOCK_ID_COUNT
from steady_queue.store.sql.dialect import Dialect
from steady_queue.store.sql.postgres_statements import PostgresStatements
from steady_queue.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steady_queue.store.statement import Flow, Row

#: The server ends the transaction of a frozen process, which may hold locks, after this time.
IDLE_TRANSACTION_TIMEOUT = "10s"
#: Set on Steady Queue's own connections, where the server allows it (a pooler may not). A plan that was cached when the
#: table had been analyzed while empty scans the whole table from then on: 16 times slower (measured). Without
#: sequential scans there is no such plan.
SETTINGS = {
    "jit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # One plan serves all parameters. By its own estimate the server would plan each claim again, which takes as long as
    # claiming a job does.
    "plan_cache_mode": "force_generic_plan",
    # No operation should wait for another transaction's lock; one that does is restarted.
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": IDLE_TRANSACTION_TIMEOUT,
    # Also while the server sends: a process that is frozen before it has read all its claims keeps those rows locked.
    "tcp_user_timeout": IDLE_TRANSACTION_TIMEOUT,
}
#: Begins a transaction; behind a pooler, where the session's settings belong to other clients too, the second one.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
BEGIN_BEHIND_POOLER = f"{BEGIN}; SET LOCAL idle_in_transaction_session_timeout = '{IDLE_TRANSACTION_TIMEOUT}'"

#: The first of the two numbers of our advisory locks, so that they do not collide with those of the application.
LOCK_SPACE = 0x5351


def _lock_timeout(seconds: int) -> str:
    """Sets the transaction's lock timeout, unless the current one is shorter."""
    now = "current_setting('lock_timeout')"
    return (
        f", set_config('lock_timeout', CASE WHEN {now}::interval > '0' AND {now}::interval < '{seconds:d}s'"
        f" THEN {now} ELSE '{seconds:d}s' END, true)"
    )


_LISTS = re.compile(r"IN \?\*")


class Postgres(Dialect):
    name = "PostgreSQL"
    server_version = "SHOW server_version"
    can_notify = True
    now = "statement_timestamp()"
    has_table = "SELECT to_regclass(?::text) IS NOT NULL"
    table_columns = (
        "SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE left(c.relname::text, 13) = 'steady_queue_' AND c.relkind IN ('r', 'p') AND a.attnum > 0"
        " AND NOT a.attisdropped AND pg_table_is_visible(c.oid)"
    )

    names_as_rows = "unnest(?::text[]) WITH ORDINALITY AS n(name, place)"
    #: A transaction without an id and a snapshot keeps no row from being removed.
    oldest_transaction = (
        "SELECT extract(epoch FROM clock_timestamp() - a.xact_start)::float8, a.pid, a.application_name,"
        " a.usename::text FROM pg_stat_activity a WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()"
        " AND a.xact_start IS NOT NULL AND (a.backend_xid IS NOT NULL OR a.backend_xmin IS NOT NULL)"
        " AND a.backend_type = 'client backend' ORDER BY a.xact_start LIMIT 1"
    )

    reports_per_statement = 5_000
    single_statements = PostgresStatements()

    def lock_keys(self, lock_ids: Sequence[int], wait_seconds: int | None = None) -> Flow[None]:
        # Columns are evaluated from left to right, so these settings apply while the server waits for the lock.
        bound = "" if wait_seconds is None else _lock_timeout(wait_seconds)
        yield Statement(
            f"SELECT set_config('idle_in_transaction_session_timeout', $1, true){bound},"
            " pg_advisory_xact_lock($2::int, id) FROM unnest($3::int[]) AS id",
            (IDLE_TRANSACTION_TIMEOUT, LOCK_SPACE, list(lock_ids)),
            returns=".." if wait_seconds is None else "...",
        )

    def literal_ago(self, seconds: float) -> str:
        return f"statement_timestamp() - interval '{seconds:.6f} seconds'"

    def microseconds_ago(self, number: str = "?") -> str:
        return f"statement_timestamp() - {number}::bigint * interval '1 microsecond'"

    def waiting_queues(self) -> Flow[list[Row]]:
        rows = yield Statement(
            "WITH RECURSIVE steps(name, lane) AS ((SELECT r.queue_name::text, r.lane FROM steady_queue_readyexecution r"
            " WHERE r.queue_name >= '' ORDER BY r.queue_name, r.lane LIMIT 1)"
            " UNION ALL SELECT n.queue_name::text, n.lane FROM steps s"
            " CROSS JOIN LATERAL (SELECT r.queue_name, r.lane FROM steady_queue_readyexecution r"
            " WHERE (r.queue_name, r.lane) > (s.name, s.lane) ORDER BY r.queue_name, r.lane LIMIT 1) n)"
            " SELECT name, lane FROM steps"
            " WHERE NOT EXISTS (SELECT 1 FROM steady_queue_pause p WHERE p.queue_name = steps.name)"
            f" UNION ALL (SELECT NULL, NULL {FROM_ANY_PAUSE})",
            returns="..",
        )
        return rows

    def try_maintenance(self) -> Flow[bool]:
        rows = yield Statement(
            "SELECT pg_try_advisory_xact_lock($1::int, $2::int)", (LOCK_SPACE, LOCK_ID_COUNT), returns="."
        )
        return bool(rows[0][0])

    def statement(self, text: str, *params: Any, returns: str = "") -> Statement:
        return Statement(_number_placeholders(text), params, returns)

    def statement_for_ids(self, text: str, ids: Sequence[Any], returns: str = "") -> Statement:
        return Statement(_number_placeholders(text), (ids,), returns)

    def statement_each(self, text: str, rows: Sequence[Sequence[Any]]) -> Statement:
        return Statement(_number_placeholders(text), rows, many=True)

    def params(self, statement: Statement) -> Sequence[Any]:
        return statement.params

    def rows(self, statement: Statement, rows: Iterable[Row]) -> list[Row]:
        return list(rows)


@lru_cache(maxsize=512)
def _number_placeholders(text: str) -> str:
    """A portable statement with `$1`, `$2`, ... as placeholders."""
    parts = _LISTS.sub("= ANY(?)", text).split("?")
    return parts[0] + "".join(f"${at}{part}" for at, part in enumerate(parts[1:], 1))
