"""Unique keys: rows of `uniquekey`, whose primary key decides which of two jobs gets a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


def free_keys(sql: Dialect, job_ids: Sequence[UUID]) -> Flow[None]:
    """Delete the unique keys of jobs that have ended, except those that are held for some time.

    A key that another transaction has locked is skipped: it is being taken, or maintenance deletes it.
    """
    where = f"WHERE job_id IN ?* AND (held_until IS NULL OR held_until <= {sql.now})"
    text = f"SELECT unique_key FROM {sql.keys_by_job} {where}"
    rows = yield sql.statement(text, list(job_ids), returns=".")
    if rows and sql.for_update_skip_locked:
        # Not at once: a locking read that finds no row may lock the gap, and every enqueue would wait for it.
        rows = yield sql.statement(f"{text}{sql.for_update_skip_locked}", list(job_ids), returns=".")
    if rows:
        yield sql.delete("uniquekey", [row[0] for row in rows])
