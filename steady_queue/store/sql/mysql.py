"""MySQL and MariaDB: one dialect, kept to what both understand (no RETURNING, no FOR UPDATE OF).

Every lookup names its index: a locking statement locks, or waits for, each row that it scans, and on a small table the
optimizer would rather scan it all.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from steady_queue.errors import StoreDataError
from steady_queue.store.operations.promote import LOCK_ID_COUNT, chunks_of
from steady_queue.store.outcome import MAX_ATTEMPTS
from steady_queue.store.sql.dialect import Dialect
from steady_queue.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.outcome import Attempt
    from steady_queue.store.statement import Flow, Row

#: How long a frozen holder of locks may sit in its transaction before MariaDB ends it, in seconds.
IDLE_TRANSACTION_SECONDS = 10
#: Keys whose first jobs are asked for together; a larger union takes the server longer to plan than it saves.
KEYS_IN_UNION = 100


class MySQL(Dialect):
    name = "MySQL or MariaDB"
    mark = "%s"
    locks_gaps = True
    now = "UTC_TIMESTAMP(6)"
    given_ago = "UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND"
    ready_by_queue = "steady_queue_readyexecution r FORCE INDEX (sq_ready_by_queue)"
    ready_all = "steady_queue_readyexecution r FORCE INDEX (sq_ready_all)"
    blocked_by_key = "steady_queue_blockedexecution FORCE INDEX (sq_blocked_by_key)"
    scheduled_due = "steady_queue_scheduledexecution FORCE INDEX (sq_scheduled_due)"

    text_columns = (
        "SELECT table_name, column_name, character_set_name, collation_name FROM information_schema.columns"
        " WHERE table_schema = database() AND LEFT(table_name, 13) = 'steady_queue_' AND collation_name IS NOT NULL"
    )
    blocked_keys = (
        "SELECT DISTINCT concurrency_key FROM steady_queue_blockedexecution FORCE INDEX (sq_blocked_by_key)"
        " WHERE concurrency_key > ? ORDER BY concurrency_key LIMIT ?"
    )

    def say(self, text: str, *params: Any, returns: str = "") -> Statement:
        if deleted := _DELETED.match(text):
            ids = params[0] if isinstance(params[0], (list, tuple)) else params
            return Statement(_delete(deleted[1], deleted[2], len(ids)), ids)
        if taken := _TAKEN.match(text):
            # Each once, as in a list; rows are locked in the order in which they are given.
            ids = sorted(set(params[0])) if taken[4] else list(dict.fromkeys(params[0]))
            return Statement(_take(taken[1], taken[2], taken[3], taken[5], len(ids)), ids, returns)
        return super().say(_by_primary_key(text), *params, returns=returns)

    def lock_keys(self, lock_ids: Sequence[int], wait_seconds: int | None = None) -> Flow[None]:
        text = "SELECT id FROM steady_queue_lockbucket WHERE id IN ?* ORDER BY id FOR UPDATE"
        lock = replace(self.say(text, list(lock_ids), returns="."), holds_keys=True)
        rows = yield lock if wait_seconds is None else replace(lock, text=_waiting(lock.text, wait_seconds))
        missing = set(lock_ids) - {row[0] for row in rows}
        if missing:
            # Somebody emptied the table (Django's flush does): without its row a key would not be locked at all.
            yield self.say_each(
                "INSERT IGNORE INTO steady_queue_lockbucket (id) VALUES (?)", [(id_,) for id_ in sorted(missing)]
            )
            yield self.say(text, list(lock_ids), returns=".")

    def first_blocked(self, wants: Mapping[str, int]) -> Flow[list[tuple[str, UUID]]]:
        """Many keys in one statement: each would take a round trip of its own."""
        first = (
            f"(SELECT concurrency_key, job_id, priority FROM {self.blocked_by_key} WHERE concurrency_key = ?"
            f" ORDER BY priority DESC, job_id LIMIT ?{self.take_free})"
        )
        found: list[Row] = []
        for part in chunks_of(list(wants.items()), KEYS_IN_UNION):
            text = " UNION ALL ".join([first] * len(part))
            found += yield self.say(text, *[value for key, count in part for value in (key, count)], returns=".u.")
        # A union has no order of its own.
        found.sort(key=lambda row: (-row[2], row[1]))
        return [(key, job_id) for key, job_id, _ in found]

    def queue_names(self) -> Flow[list[str]]:
        pairs, _ = yield from self._walk()
        return list(dict.fromkeys(name for name, _ in pairs))

    def waiting_queues(self) -> Flow[list[Row]]:
        pairs, resting = yield from self._walk()
        waiting: list[Row] = [pair for pair in pairs if pair[0] not in resting]
        return [*waiting, (None, None)] if resting else waiting

    def _walk(self) -> Flow[tuple[list[tuple[str, int]], set[str]]]:
        """The queues and lanes of ready jobs, and the queues that are paused, which the first step tells as well.

        Steps of our own: neither server goes down this index in steps, for its third column is descending.
        """
        step = (
            "SELECT r.queue_name, r.lane FROM steady_queue_readyexecution r FORCE INDEX (sq_ready_by_queue)"
            " WHERE r.queue_name > ? OR (r.queue_name = ? AND r.lane > ?)"
            f" ORDER BY r.queue_name, r.lane LIMIT {_STRIDE}"
        )
        rows = yield self.say(
            f"SELECT * FROM ({step}) t UNION ALL SELECT p.queue_name, NULL FROM steady_queue_pause p",
            *("", "", -1),
            returns="..",
        )
        resting = {name for name, lane in rows if lane is None}
        rows = [row for row in rows if row[1] is not None]
        found: dict[tuple[str, int], None] = {}
        while True:
            found.update({(str(name), int(lane)): None for name, lane in rows})
            if len(rows) < _STRIDE:
                return list(found), resting
            name, lane = rows[-1]
            rows = yield self.say(step, name, name, lane, returns="..")

    def unless_there(self, text: str) -> str:
        return text.replace("INSERT", "INSERT IGNORE", 1)

    def exactly_ago(self, seconds: float) -> str:
        return f"UTC_TIMESTAMP(6) - INTERVAL {seconds:.6f} SECOND"

    def try_maintenance(self) -> Flow[bool]:
        text = "SELECT id FROM steady_queue_lockbucket WHERE id = ?"
        rows = yield self.say(f"{text} FOR UPDATE SKIP LOCKED", LOCK_ID_COUNT, returns=".")
        if not rows and not (yield self.say(text, LOCK_ID_COUNT, returns=".")):
            # Its table was emptied: make the row anew, and have it at once unless another was quicker.
            yield self.say("INSERT IGNORE INTO steady_queue_lockbucket (id) VALUES (?)", LOCK_ID_COUNT)
            rows = yield self.say(f"{text} FOR UPDATE SKIP LOCKED", LOCK_ID_COUNT, returns=".")
        return bool(rows)

    def update_attempts(self, attempts: Sequence[Attempt], worker_id: str, by_owner: bool) -> Flow[None]:
        """One statement for them all: what differs between them comes as a table, the times from their claims."""
        if not attempts:
            return
        given = "SELECT ? AS id, ? AS value, ? AS error, ? AS finished_at" + " UNION ALL SELECT ?, ?, ?, ?" * (
            len(attempts) - 1
        )
        yield self.say(
            f"UPDATE ({given}) g"
            " STRAIGHT_JOIN steady_queue_claimedexecution c FORCE INDEX (PRIMARY) ON c.job_id = g.id"
            " STRAIGHT_JOIN steady_queue_job j FORCE INDEX (PRIMARY) ON j.id = c.job_id"
            f" SET j.attempts = LEAST(j.attempts, {MAX_ATTEMPTS - 1}) + 1,"
            " j.started_at = COALESCE(j.started_at, c.claimed_at),"
            " j.last_attempted_at = c.claimed_at, j.finished_at = g.finished_at, j.return_value = g.value,"
            " j.errors = NULLIF(CONCAT_WS(CHAR(10 USING utf8mb4), j.errors, g.error), ''),"
            " j.worker_ids = CONCAT_WS(CHAR(10 USING utf8mb4), j.worker_ids, ?),"
            f" j.last_claim_id = {'c.claim_id' if by_owner else 'j.last_claim_id'}",
            *[part for a in attempts for part in (a.job_id, a.value, a.error, a.finished_at)],
            worker_id,
        )

    def encode(self, value: Any) -> Any:
        # The drivers drop a time zone silently, so it is taken off here, after conversion.
        if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None)
        return super().encode(value)


#: How many ready jobs are looked at in one step from queue to queue.
_STRIDE = 200

#: What the drivers write as two characters in a text.
_ESCAPED = "\x00\n\r\x1a\"'\\"
#: Statements below this part of a packet are not measured exactly.
_SURELY_FITS = 0.2


def check_size(params: Sequence[Any], packet: int) -> None:
    """Refuse a statement that no packet can hold: the server would only close the connection, as in an outage."""
    texts = [value for value in params if isinstance(value, (str, bytes))]
    if sum(map(len, texts)) < packet * _SURELY_FITS:
        return
    size = 0
    for text in texts:
        plain = text.decode("latin-1") if isinstance(text, bytes) else text
        size += len(plain.encode("utf-8", "replace")) + sum(map(plain.count, _ESCAPED))
    if size >= packet:
        raise StoreDataError(f"{size:,} bytes do not fit into a packet of the server ({packet:,})", code="1153")


@lru_cache(maxsize=512)
def _waiting(text: str, seconds: int) -> str:
    """A locking read that waits so long for locks: a hint tells MySQL, a comment that is executed tells MariaDB."""
    hinted = text.replace("SELECT ", f"SELECT /*+ SET_VAR(innodb_lock_wait_timeout = {seconds:d}) */ ", 1)
    return f"{hinted} /*M! WAIT {seconds:d} */"


@lru_cache(maxsize=512)
def _by_primary_key(text: str) -> str:
    """The statement with the primary key named wherever rows are looked up by it."""
    text = _UPDATED.sub(r"UPDATE \1 FORCE INDEX (PRIMARY) SET\2 WHERE id ", text)
    return _SELECTED.sub(r"FROM \1 FORCE INDEX (PRIMARY) WHERE \2 ", text)


@lru_cache(maxsize=512)
def _delete(table: str, column: str, count: int) -> str:
    """A deletion that looks each row up. With a list of ids, whatever index is named, small tables would be scanned."""
    ids = "SELECT %s AS id" + " UNION ALL SELECT %s" * (count - 1)
    return f"DELETE t FROM ({ids}) g STRAIGHT_JOIN {table} t FORCE INDEX (PRIMARY) ON t.{column} = g.id"


@lru_cache(maxsize=512)
def _take(columns: str, table: str, column: str, lock: str, count: int) -> str:
    """A locking read that looks each row up, as a deletion does: a scan would wait for rows of open transactions."""
    ids = "SELECT %s AS wanted" + " UNION ALL SELECT %s" * (count - 1)
    return (
        f"SELECT {columns} FROM ({ids}) g STRAIGHT_JOIN {table} t FORCE INDEX (PRIMARY) ON t.{column} = g.wanted{lock}"
    )


_DELETED = re.compile(r"DELETE FROM (steady_queue_\w+) WHERE (id|job_id) (?:IN \?\*|= \?)$")
_TAKEN = re.compile(
    r"SELECT (.+) FROM (steady_queue_\w+) WHERE (id|job_id) IN \?\*( ORDER BY (?:id|job_id))?"
    r"( FOR UPDATE(?: SKIP LOCKED)?|(?<=ORDER BY job_id))$"
)
_UPDATED = re.compile(r"^UPDATE (steady_queue_\w+) SET(.*) WHERE id (?=IN|=)")
_SELECTED = re.compile(r"FROM (steady_queue_\w+(?: [a-z])?) WHERE ((?:[a-z]\.)?(?:id|job_id)|p\.queue_name) (?=IN|=)")
