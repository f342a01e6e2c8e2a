"""MySQL and MariaDB: one dialect, kept to what both understand (no RETURNING, no FOR UPDATE OF).

The index of each poll is named: a locking read locks every row it scans, so a wrong index starves the other workers.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from steady_queue.store.sql.dialect import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.outcome import Attempt
    from steady_queue.store.statement import Flow


class MySQL(Dialect):
    name = "MySQL or MariaDB"
    mark = "%s"
    now = "UTC_TIMESTAMP(6)"
    ready_by_queue = "steady_queue_readyexecution r FORCE INDEX (sq_ready_by_queue)"
    ready_all = "steady_queue_readyexecution r FORCE INDEX (sq_ready_all)"
    blocked_by_key = "steady_queue_blockedexecution FORCE INDEX (sq_blocked_by_key)"

    def lock_keys(self, lock_ids: Sequence[int]) -> Flow[None]:
        text = "SELECT id FROM steady_queue_lockbucket WHERE id IN ?* ORDER BY id FOR UPDATE"
        rows = yield self.say(text, list(lock_ids), returns=".")
        missing = set(lock_ids) - {row[0] for row in rows}
        if missing:
            # Somebody emptied the table (Django's flush does): without its row a key would not be locked at all.
            yield self.say_each(
                "INSERT IGNORE INTO steady_queue_lockbucket (id) VALUES (?)", [(id_,) for id_ in sorted(missing)]
            )
            yield self.say(text, list(lock_ids), returns=".")

    def update_attempts(self, attempts: Sequence[Attempt], worker_id: str, by_owner: bool) -> Flow[None]:
        """One statement for them all: what differs between rows is told by their ids, the times by their claims."""
        if not attempts:
            return
        values, value_params = _by_id([(attempt.job_id, attempt.value) for attempt in attempts])
        errors, error_params = _by_id([(attempt.job_id, attempt.error) for attempt in attempts])
        ends, end_params = _by_id([(attempt.job_id, attempt.finished_at) for attempt in attempts])
        yield self.say(
            "UPDATE steady_queue_job j JOIN steady_queue_claimedexecution c ON c.job_id = j.id"
            " SET j.attempts = j.attempts + 1, j.started_at = COALESCE(j.started_at, c.claimed_at),"
            f" j.last_attempted_at = c.claimed_at, j.finished_at = {ends}, j.return_value = {values},"
            f" j.errors = NULLIF(CONCAT_WS(CHAR(10 USING utf8mb4), j.errors, {errors}), ''),"
            " j.worker_ids = CONCAT_WS(CHAR(10 USING utf8mb4), j.worker_ids, ?),"
            f" j.last_claim_id = {'c.claim_id' if by_owner else 'j.last_claim_id'}"
            " WHERE j.id IN ?*",
            *end_params,
            *value_params,
            *error_params,
            worker_id,
            [attempt.job_id for attempt in attempts],
        )

    def encode(self, value: Any) -> Any:
        # The drivers drop a time zone silently, so it is taken off here, after conversion.
        if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None)
        return super().encode(value)


def _by_id(pairs: Sequence[tuple[UUID, Any]]) -> tuple[str, list[Any]]:
    """An expression for a column whose value depends on the job, and its parameters."""
    present = [(job_id, value) for job_id, value in pairs if value is not None]
    if not present:
        return "NULL", []
    if len(present) == len(pairs) and len({value for _, value in present}) == 1:
        return "?", [present[0][1]]
    return f"CASE j.id {'WHEN ? THEN ? ' * len(present)}END", [part for pair in present for part in pair]
