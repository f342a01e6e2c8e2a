"""What the server of a database does: shown by a test that waits too long for a lock."""

from __future__ import annotations

from django.db import connections

from tests.support.databases.tables import query

_ROWS = "SELECT name, pid, last_heartbeat_at, CURRENT_TIMESTAMP FROM steady_queue_process"
_ACTIVITY = """
    SELECT pid, datname, state, wait_event_type, wait_event, now() - xact_start, now() - state_change, left(query, 300)
    FROM pg_stat_activity WHERE datname IS NOT NULL ORDER BY xact_start"""
_LOCKS = """
    SELECT pid, database, classid, objid, mode FROM pg_locks
    WHERE locktype = 'advisory' AND granted"""


def describe_activity(alias: str) -> str:
    """The processes of the queue and, on PostgreSQL, the connections and the advisory locks that they hold."""
    parts = [("processes", _ROWS)]
    if connections[alias].vendor == "postgresql":
        parts += [("connections", _ACTIVITY), ("advisory locks", _LOCKS)]
    lines: list[str] = []
    for name, text in parts:
        lines += [f"{name}:", *(f"  {row}" for row in query(alias, text))]
    return "\n".join(lines)
