"""SQLite: one writer at a time, so transactions begin IMMEDIATE and rows need no locks."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from steady_queue.store.job import FROM_ANY_PAUSE, Lane
from steady_queue.store.outcome import MAX_ATTEMPTS, MAX_WORKER_IDS_CHARACTERS
from steady_queue.store.sql.dialect import QUEUE_NAMES, Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.operations.task_data import Report
    from steady_queue.store.outcome import Attempt
    from steady_queue.store.statement import Flow, Row, Statement


class SQLite(Dialect):
    name = "SQLite"
    server_version = "SELECT sqlite_version()"
    now = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    has_table = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
    table_columns = (
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND substr(m.name, 1, 13) = 'steady_queue_'"
    )
    least, greatest = "MIN", "MAX"
    for_update = ""
    for_update_skip_locked = ""
    ready_by_queue = "steady_queue_readyexecution r INDEXED BY sq_ready_by_queue"
    ready_all = "steady_queue_readyexecution r INDEXED BY sq_ready_all"
    blocked_by_key = "steady_queue_blockedexecution INDEXED BY sq_blocked_by_key"
    scheduled_due = "steady_queue_scheduledexecution INDEXED BY sq_scheduled_due"
    expiry_by_time = "steady_queue_expiry INDEXED BY sq_expiry"
    keys_by_job = "steady_queue_uniquekey INDEXED BY sq_unique_by_job"

    change_marker = "PRAGMA data_version"

    def lock_keys(self, lock_ids: Sequence[int], wait_seconds: int | None = None) -> Flow[None]:
        yield from ()  # the transaction itself is the lock

    def waiting_queues(self) -> Flow[list[Row]]:
        lanes = " UNION ALL SELECT ".join(f"{lane:d} AS lane" for lane in Lane)
        rows = yield self.statement(
            f"{QUEUE_NAMES} SELECT q.name, l.lane FROM names q CROSS JOIN (SELECT {lanes}) l"
            f" WHERE EXISTS (SELECT 1 FROM {self.ready_by_queue} WHERE r.queue_name = q.name AND r.lane = l.lane)"
            " AND NOT EXISTS (SELECT 1 FROM steady_queue_pause p WHERE p.queue_name = q.name)"
            f" UNION ALL SELECT * FROM (SELECT NULL, NULL {FROM_ANY_PAUSE}) s",
            returns="..",
        )
        return rows

    def literal_ago(self, seconds: float) -> str:
        return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '{-seconds:+.3f} seconds')"

    def microseconds_ago(self, number: str = "?") -> str:
        return f"strftime('%Y-%m-%d %H:%M:%f', 'now', printf('-%.3f seconds', {number} / 1000000.0))"

    def try_maintenance(self) -> Flow[bool]:
        yield from ()
        return True

    def update_attempts(self, attempts: Sequence[Attempt], process_name: str, by_owner: bool) -> Flow[None]:
        yield self.statement_each(
            f"UPDATE steady_queue_job SET attempts = MIN(attempts, {MAX_ATTEMPTS - 1}) + 1, retries = retries + ?,"
            " started_at = COALESCE(started_at, ?),"
            " last_attempted_at = ?, finished_at = ?, return_value = ?, last_claim_id = COALESCE(?, last_claim_id),"
            " errors = COALESCE(?, errors),"
            f" worker_ids = COALESCE({_KEPT_WORKERS} || char(10), '') || ? WHERE id = ?",
            [
                (
                    attempt.retries,
                    attempt.claimed_at,
                    attempt.claimed_at,
                    attempt.finished_at,
                    attempt.value,
                    attempt.claim_id if by_owner else None,
                    attempt.errors,
                    process_name,
                    attempt.job_id,
                )
                for attempt in attempts
            ],
        )

    def update_reports(self, reports: Sequence[Report], log_characters: int) -> Statement:
        return self.statement_each(
            "UPDATE steady_queue_job SET progress = COALESCE(?, progress), log = CASE WHEN ? THEN log"
            f" ELSE substr(COALESCE(log || char(10), '') || ?, {-log_characters:d}) END WHERE id = ?",
            [(each.progress, each.log is None, each.log, each.job_id) for each in reports],
        )

    def encode(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return _format_time(value)
        return super().encode(value)


#: The names of the workers without the oldest, if they are too long.
_KEPT_WORKERS = (
    f"CASE WHEN length(worker_ids) < {MAX_WORKER_IDS_CHARACTERS} THEN worker_ids"
    " ELSE substr(worker_ids, instr(worker_ids, char(10)) + 1) END"
)


@lru_cache(maxsize=64)  # the jobs of a batch have their times in common
def _format_time(time: datetime) -> str:
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
