"""MySQL and MariaDB: one dialect, limited to what both support (no RETURNING, no FOR UPDATE OF).

Every lookup names its index: a locking statement locks, or waits for, each row that it scans, and the optimizer prefers
to scan all of a small table.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from steady_queue.errors import StoreDataError
from steady_queue.store.names import LOCK_ID_COUNT
from steady_queue.store.outcome import MAX_ATTEMPTS, MAX_WORKER_IDS_CHARACTERS
from steady_queue.store.sql.dialect import Dialect, key_of
from steady_queue.store.statement import Statement, chunks_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.operations.task_data import Report
    from steady_queue.store.outcome import Attempt
    from steady_queue.store.statement import Flow, Row

#: MariaDB ends the transaction of a frozen process, which may hold locks, after this many idle seconds.
IDLE_TRANSACTION_SECONDS = 10
#: Keys whose first jobs are selected by one statement; a larger union takes the server longer to plan than it saves.
KEYS_PER_UNION = 100
#: Ready jobs that are read in one step from queue to queue.
_STEP_ROWS = 200


class MySQL(Dialect):
    name = "MySQL or MariaDB"
    placeholder = "%s"
    locks_gaps = True
    now = "UTC_TIMESTAMP(6)"
    by_id = " FORCE INDEX (PRIMARY)"
    ready_by_queue = "steady_queue_readyexecution r FORCE INDEX (sq_ready_by_queue)"
    ready_all = "steady_queue_readyexecution r FORCE INDEX (sq_ready_all)"
    blocked_by_key = "steady_queue_blockedexecution FORCE INDEX (sq_blocked_by_key)"
    scheduled_due = "steady_queue_scheduledexecution FORCE INDEX (sq_scheduled_due)"
    expiry_by_time = "steady_queue_expiry FORCE INDEX (sq_expiry)"
    keys_by_job = "steady_queue_uniquekey FORCE INDEX (sq_unique_by_job)"
    statistics_by_time = "steady_queue_taskstatistics FORCE INDEX (sq_statistics)"

    text_columns = (
        "SELECT table_name, column_name, character_set_name, collation_name FROM information_schema.columns"
        " WHERE table_schema = database() AND LEFT(table_name, 13) = 'steady_queue_' AND collation_name IS NOT NULL"
    )
    blocked_keys = (
        "SELECT DISTINCT concurrency_key FROM steady_queue_blockedexecution FORCE INDEX (sq_blocked_by_key)"
        " WHERE concurrency_key > ? ORDER BY concurrency_key LIMIT ?"
    )
    #: InnoDB shows the time of the operating system, for every time zone of the session.
    oldest_transaction = (
        "SELECT TIMESTAMPDIFF(SECOND, t.trx_started, CONVERT_TZ(NOW(), @@session.time_zone, 'SYSTEM')),"
        " t.trx_mysql_thread_id, p.host, p.user FROM information_schema.innodb_trx t"
        " LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id"
        " WHERE t.trx_mysql_thread_id <> CONNECTION_ID() AND t.trx_mysql_thread_id > 0 ORDER BY t.trx_started LIMIT 1"
    )

    def select(
        self, table: str, columns: str, ids: Sequence[Any], *, returns: str, is_ordered: bool = False
    ) -> Statement:
        if is_ordered:
            ids = sorted(set(ids))
            return Statement(_lookup_text(table, columns, len(ids)), ids, returns)
        text = f"SELECT {columns} FROM steady_queue_{table}{self.by_id} WHERE {key_of(table)} IN ?*"
        return self.statement_for_ids(text, ids, returns)

    def lock(
        self,
        table: str,
        columns: str,
        ids: Sequence[Any],
        *,
        returns: str,
        skip_locked: bool = False,
        is_ordered: bool = False,
    ) -> Statement:
        # Each id once, as in an IN list; the server locks rows in the order of the ids.
        ids = sorted(set(ids)) if is_ordered else list(dict.fromkeys(ids))
        lock = self.for_update_skip_locked if skip_locked else self.for_update
        return Statement(_lookup_text(table, columns, len(ids), lock), ids, returns)

    def delete(self, table: str, ids: Sequence[Any]) -> Statement:
        return Statement(_delete_text(table, len(ids)), ids)

    def delete_one(self, table: str, id_: Any) -> Statement:
        return Statement(_delete_text(table, 1), (id_,))

    def insert_new(self, into: str) -> str:
        return f"INSERT IGNORE INTO {into}"

    def insert_or_lock(self, into: str) -> str:
        # INSERT IGNORE takes a shared lock: two transactions that then want an exclusive one would be a deadlock.
        return f"INSERT INTO {into} ON DUPLICATE KEY UPDATE job_id = job_id"

    def insert_or_update(self, into: str, key: Sequence[str], changes: Mapping[str, str]) -> str:
        values = {name: how.format(old=name, new=f"VALUES({name})") for name, how in changes.items()}
        sets = ", ".join(f"{name} = {value}" for name, value in values.items())
        return f"INSERT INTO {into} ON DUPLICATE KEY UPDATE {sets}"

    def lock_keys(self, lock_ids: Sequence[int], wait_seconds: int | None = None) -> Flow[None]:
        lock = self.lock("lockbucket", "id", lock_ids, returns=".", is_ordered=True)
        text = lock.text if wait_seconds is None else _lock_text_with_wait(len(lock.params), wait_seconds)
        rows = yield replace(lock, text=text, holds_keys=True)
        missing = set(lock_ids) - {row[0] for row in rows}
        if missing:
            # The table was emptied (Django's flush does that): without its row a key would not be locked at all.
            yield self.statement_each(
                "INSERT IGNORE INTO steady_queue_lockbucket (id) VALUES (?)", [(id_,) for id_ in sorted(missing)]
            )
            yield lock

    def first_blocked(self, wants: Mapping[str, int]) -> Flow[list[tuple[str, UUID]]]:
        """Many keys in one statement: otherwise each would take a round trip."""
        first = (
            f"(SELECT concurrency_key, job_id, priority FROM {self.blocked_by_key} WHERE concurrency_key = ?"
            f" ORDER BY priority DESC, job_id LIMIT ?{self.for_update_skip_locked})"
        )
        found: list[Row] = []
        for part in chunks_of(list(wants.items()), KEYS_PER_UNION):
            text = " UNION ALL ".join([first] * len(part))
            found += yield self.statement(
                text, *[value for key, count in part for value in (key, count)], returns=".u."
            )
        # A union has no order of its own.
        found.sort(key=lambda row: (-row[2], row[1]))
        return [(key, job_id) for key, job_id, _ in found]

    def queue_names(self) -> Flow[list[str]]:
        pairs, _ = yield from self._walk()
        return list(dict.fromkeys(name for name, _ in pairs))

    def waiting_queues(self) -> Flow[list[Row]]:
        pairs, paused = yield from self._walk()
        waiting: list[Row] = [pair for pair in pairs if pair[0] not in paused]
        return [*waiting, (None, None)] if paused else waiting

    def _walk(self) -> Flow[tuple[list[tuple[str, int]], set[str]]]:
        """The queues and lanes of ready jobs, and the paused queues, which the first statement selects as well.

        One statement for each step: neither server skips through this index by itself, as its third column is
        descending.
        """
        step = (
            "SELECT r.queue_name, r.lane FROM steady_queue_readyexecution r FORCE INDEX (sq_ready_by_queue)"
            " WHERE r.queue_name > ? OR (r.queue_name = ? AND r.lane > ?)"
            f" ORDER BY r.queue_name, r.lane LIMIT {_STEP_ROWS}"
        )
        rows = yield self.statement(
            f"SELECT * FROM ({step}) t UNION ALL SELECT p.queue_name, NULL FROM steady_queue_pause p",
            *("", "", -1),
            returns="..",
        )
        paused = {name for name, lane in rows if lane is None}
        rows = [row for row in rows if row[1] is not None]
        found: dict[tuple[str, int], None] = {}
        while True:
            found.update({(str(name), int(lane)): None for name, lane in rows})
            if len(rows) < _STEP_ROWS:
                return list(found), paused
            name, lane = rows[-1]
            rows = yield self.statement(step, name, name, lane, returns="..")

    def literal_ago(self, seconds: float) -> str:
        return f"UTC_TIMESTAMP(6) - INTERVAL {seconds:.6f} SECOND"

    def microseconds_ago(self, number: str = "?") -> str:
        return f"UTC_TIMESTAMP(6) - INTERVAL {number} MICROSECOND"

    def try_maintenance(self) -> Flow[bool]:
        text = f"SELECT id FROM steady_queue_lockbucket{self.by_id} WHERE id = ?"
        rows = yield self.statement(f"{text} FOR UPDATE SKIP LOCKED", LOCK_ID_COUNT, returns=".")
        if not rows and not (yield self.statement(text, LOCK_ID_COUNT, returns=".")):
            # The table was emptied: insert the row and lock it, unless another process was faster.
            yield self.statement("INSERT IGNORE INTO steady_queue_lockbucket (id) VALUES (?)", LOCK_ID_COUNT)
            rows = yield self.statement(f"{text} FOR UPDATE SKIP LOCKED", LOCK_ID_COUNT, returns=".")
        return bool(rows)

    def update_attempts(self, attempts: Sequence[Attempt], process_name: str, by_owner: bool) -> Flow[None]:
        """One statement for all: the values that differ are a derived table, the times are those of the claims."""
        if not attempts:
            return
        given = (
            "SELECT ? AS id, ? AS value, ? AS errors, ? AS finished_at, ? AS retries"
            + " UNION ALL SELECT ?, ?, ?, ?, ?" * (len(attempts) - 1)
        )
        yield self.statement(
            f"UPDATE ({given}) g"
            " STRAIGHT_JOIN steady_queue_claimedexecution c FORCE INDEX (PRIMARY) ON c.job_id = g.id"
            " STRAIGHT_JOIN steady_queue_job j FORCE INDEX (PRIMARY) ON j.id = c.job_id"
            f" SET j.attempts = LEAST(j.attempts, {MAX_ATTEMPTS - 1}) + 1,"
            " j.started_at = COALESCE(j.started_at, c.claimed_at),"
            " j.last_attempted_at = c.claimed_at, j.finished_at = g.finished_at, j.return_value = g.value,"
            " j.retries = j.retries + g.retries, j.errors = COALESCE(g.errors, j.errors),"
            f" j.worker_ids = CONCAT_WS(CHAR(10 USING utf8mb4), {_KEPT_WORKERS}, ?),"
            f" j.last_claim_id = {'c.claim_id' if by_owner else 'j.last_claim_id'}",
            *[part for a in attempts for part in (a.job_id, a.value, a.errors, a.finished_at, a.retries)],
            process_name,
        )

    def update_reports(self, reports: Sequence[Report], log_characters: int) -> Statement:
        given = "SELECT ? AS id, ? AS progress, ? AS log" + " UNION ALL SELECT ?, ?, ?" * (len(reports) - 1)
        return self.statement(
            f"UPDATE ({given}) g STRAIGHT_JOIN steady_queue_job j FORCE INDEX (PRIMARY) ON j.id = g.id"
            " SET j.progress = COALESCE(g.progress, j.progress), j.log = CASE WHEN g.log IS NULL THEN j.log"
            f" ELSE RIGHT(CONCAT_WS(CHAR(10 USING utf8mb4), j.log, g.log), {log_characters:d}) END",
            *[value for each in reports for value in (each.job_id, each.progress, each.log)],
        )

    def encode(self, value: Any) -> Any:
        # The drivers drop a time zone silently, so it is taken off here, after conversion.
        if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None)
        return super().encode(value)


#: The names of the workers without the oldest, if they are too long.
_KEPT_WORKERS = (
    f"CASE WHEN CHAR_LENGTH(j.worker_ids) < {MAX_WORKER_IDS_CHARACTERS} THEN j.worker_ids"
    " ELSE SUBSTRING(j.worker_ids, LOCATE(CHAR(10 USING utf8mb4), j.worker_ids) + 1) END"
)
#: Characters that the drivers escape with a second character.
_ESCAPED = "\x00\n\r\x1a\"'\\"
#: Statements smaller than this part of a packet are not measured exactly.
_UNMEASURED_PART = 0.2


def check_size(params: Sequence[Any], packet: int) -> None:
    """Refuse a statement that exceeds a packet: the server would close the connection, which looks like an outage."""
    texts = [value for value in params if isinstance(value, (str, bytes))]
    if sum(map(len, texts)) < packet * _UNMEASURED_PART:
        return
    size = 0
    for text in texts:
        plain = text.decode("latin-1") if isinstance(text, bytes) else text
        size += len(plain.encode("utf-8", "replace")) + sum(map(plain.count, _ESCAPED))
    if size >= packet:
        raise StoreDataError(f"{size:,} bytes do not fit into a packet of the server ({packet:,})", code="1153")


def _ids_table(column: str, count: int) -> str:
    return f"(SELECT %s AS {column}{' UNION ALL SELECT %s' * (count - 1)}) g"


@lru_cache(maxsize=512)
def _delete_text(table: str, count: int) -> str:
    """A deletion that looks each row up. With an IN list, even with an index hint, small tables would be scanned."""
    ids = _ids_table("id", count)
    return f"DELETE t FROM {ids} STRAIGHT_JOIN steady_queue_{table} t FORCE INDEX (PRIMARY) ON t.{key_of(table)} = g.id"


@lru_cache(maxsize=512)
def _lookup_text(table: str, columns: str, count: int, lock: str = "", hint: str = "") -> str:
    """A read that looks each row up, as a deletion does: a scan would wait for rows of open transactions."""
    return (
        f"SELECT {hint}{columns} FROM {_ids_table('wanted', count)}"
        f" STRAIGHT_JOIN steady_queue_{table} t FORCE INDEX (PRIMARY) ON t.{key_of(table)} = g.wanted{lock}"
    )


def _lock_text_with_wait(count: int, seconds: int) -> str:
    """Locks ids, waiting this long for each: MySQL reads the hint, MariaDB executes the comment."""
    hint = f"/*+ SET_VAR(innodb_lock_wait_timeout = {seconds:d}) */ "
    return _lookup_text("lockbucket", "id", count, f" FOR UPDATE /*M! WAIT {seconds:d} */", hint)
