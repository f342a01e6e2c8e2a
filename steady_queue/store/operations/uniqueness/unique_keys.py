"""Unique keys: rows of `uniquekey`, whose primary key decides which of two jobs gets a key.

A key is taken in the transaction that makes its job wait, and freed in the one that ends the job. A transaction that
has locked a key never waits for an execution row: it locks those with SKIP LOCKED. So a settle may wait for a key.

The row of a key says by whom it is taken, not whether that job still needs it. It is taken over

- from a job that has ended: the end of a job skips a key that another transaction has locked;
- from a job that holds it until it is started, and is claimed. Nothing is written when such a job is claimed: if it
  comes back, released or for its next attempt, it still has its key, or finds out that another job has taken it over;

unless the key is held for some time that has not passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.errors import StoreConflict
from steady_queue.store.job import Until

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: How often an insert is repeated because the row that was in its way is gone.
MAX_TRIES = 10
KEYS_PER_STATEMENT = 1_000


class KeyRequest(NamedTuple):
    """A job that needs a key."""

    unique_key: str
    job_id: UUID
    until: int
    held_until: datetime | None = None


class KeyHolder(NamedTuple):
    """A job that has a key."""

    job_id: UUID
    until: int
    is_held: bool


def take_keys(
    sql: Dialect, requests: Collection[KeyRequest], *, locks: bool, owns_transaction: bool
) -> Flow[dict[str, KeyHolder]]:
    """Take the keys, each for one job; returns those that other jobs have.

    With `locks`, all of them are locked until the transaction ends. `owns_transaction`: whether the transaction is
    Steady Queue's own, and so reads what was committed before each statement.
    """
    # Ascending, so that two transactions wait for each other in one order only.
    wanted = {request.unique_key: request for request in sorted(requests)}
    taken: dict[str, KeyHolder] = {}
    keys = list(wanted)
    for _ in range(MAX_TRIES):
        rows = [wanted[key] for key in keys]
        yield sql.statement_each(sql.insert_or_lock(f"{_TABLE} ({_COLUMNS}) VALUES (?, ?, ?, ?)"), rows)
        found = yield from _read_holders(sql, keys, locks=locks)
        taken |= {key: holder for key, holder in found.items() if holder.job_id != wanted[key].job_id}
        # The job that had the key freed it between the two statements.
        keys = [key for key in keys if key not in found]
        if not keys:
            break
    else:
        raise StoreConflict(
            f"the unique key of the task {wanted[keys[0]].job_id} was taken and freed again {MAX_TRIES} times"
        )
    if not taken:
        return taken
    free = yield from _find_free(sql, taken, owns_transaction)
    if free and not locks:
        # Only under its lock the state of the holder is certain: a retry by hand locks the key of its job too.
        found = yield from _read_holders(sql, sorted(free), locks=True)
        free = yield from _find_free(sql, found, owns_transaction)
    if free:
        yield from assign_keys(sql, [wanted[key] for key in sorted(free)])
    return {key: holder for key, holder in taken.items() if key not in free}


def assign_keys(sql: Dialect, requests: Sequence[KeyRequest]) -> Flow[None]:
    """Give keys, which are locked, to other jobs."""
    yield sql.statement_each(
        f"UPDATE {_TABLE}{sql.by_id} SET job_id = ?, until = ?, held_until = ? WHERE unique_key = ?",
        [(request.job_id, request.until, request.held_until, request.unique_key) for request in requests],
    )


def free_keys(sql: Dialect, job_ids: Sequence[UUID], *, owns_transaction: bool = False) -> Flow[None]:
    """Delete the keys of jobs that have ended, except those that are held for some time.

    A key that another transaction has locked is skipped: it is being taken over, or maintenance deletes it.
    """
    text = f"SELECT unique_key FROM {sql.keys_by_job} WHERE job_id IN ?* AND {_not_held(sql)}"
    if sql.locks_gaps and not owns_transaction:
        # A locking read that finds no row locks the gap: other processes could not insert until the caller commits.
        rows = yield sql.statement(text, list(job_ids), returns=".")
        if not rows:
            return
    rows = yield sql.statement(f"{text}{sql.for_update_skip_locked}", list(job_ids), returns=".")
    if rows:
        yield sql.delete("uniquekey", [row[0] for row in rows])


def find_needless(sql: Dialect, after: str, count: int) -> Flow[tuple[list[str], str | None]]:
    """Of the next keys after one, those that no job needs, locked; and the last key, or None at the end of the table.

    In a transaction of ours.
    """
    rows = yield sql.statement(
        f"SELECT unique_key FROM {_TABLE} WHERE unique_key > ? ORDER BY unique_key LIMIT ?", after, count, returns="."
    )
    keys = [row[0] for row in rows]
    if not keys:
        return [], None
    rows = yield sql.lock("uniquekey", _holder_columns(sql), keys, skip_locked=True, is_ordered=True, returns=".uii")
    holders = {row[0]: KeyHolder(row[1], row[2], bool(row[3])) for row in rows}
    ended = yield from _find_ended(sql, holders, owns_transaction=True)
    return sorted(ended), keys[-1] if len(keys) == count else None


_TABLE = "steady_queue_uniquekey"
_COLUMNS = ", ".join(KeyRequest._fields)


def _not_held(sql: Dialect) -> str:
    return f"(held_until IS NULL OR held_until <= {sql.now})"


def _holder_columns(sql: Dialect) -> str:
    return f"unique_key, job_id, until, CASE WHEN {_not_held(sql)} THEN 0 ELSE 1 END"


def _read_holders(sql: Dialect, keys: Sequence[str], *, locks: bool) -> Flow[dict[str, KeyHolder]]:
    found: dict[str, KeyHolder] = {}
    for at in range(0, len(keys), KEYS_PER_STATEMENT):
        part = list(keys[at : at + KEYS_PER_STATEMENT])
        # In a transaction of the caller a plain read may show an earlier snapshot, where gaps are locked as well.
        read = sql.lock if locks or sql.locks_gaps else sql.select
        rows = yield read("uniquekey", _holder_columns(sql), part, is_ordered=True, returns=".uii")
        found.update((row[0], KeyHolder(row[1], row[2], bool(row[3]))) for row in rows)
    return found


def _find_free(sql: Dialect, holders: Mapping[str, KeyHolder], owns_transaction: bool) -> Flow[set[str]]:
    """The keys that may be taken over."""
    free = yield from _find_ended(sql, holders, owns_transaction=owns_transaction)
    until_started = {
        holder.job_id: key
        for key, holder in holders.items()
        if holder.until == Until.STARTED and not holder.is_held and key not in free
    }
    if until_started:
        started = yield from _find_in(sql, "claimedexecution", list(until_started), owns_transaction)
        free.update(until_started[job_id] for job_id in started)
    return free


def _find_ended(sql: Dialect, holders: Mapping[str, KeyHolder], *, owns_transaction: bool) -> Flow[set[str]]:
    """The keys whose jobs have finished, failed or been deleted, and that are not held any longer.

    Also those of jobs that were retried with other arguments, and so with another key.
    """
    ids = [holder.job_id for holder in holders.values() if not holder.is_held]
    if not ids:
        return set()
    columns = "id, CASE WHEN finished_at IS NULL THEN 0 ELSE 1 END, unique_key"
    rows = yield sql.select("job", columns, list(dict.fromkeys(ids)), returns="ui.")
    jobs = {row[0]: bool(row[1]) for row in rows}
    key_of = {row[0]: row[2] for row in rows}
    ended = {id_ for id_ in ids if jobs.get(id_)}
    if owns_transaction or not sql.locks_gaps:
        ended.update(id_ for id_ in ids if id_ not in jobs)
    # Where a snapshot may be old, a job that it does not have can be new: it is left to maintenance.
    if unfinished := [id_ for id_, has_finished in jobs.items() if not has_finished]:
        ended.update((yield from _find_in(sql, "failedexecution", unfinished, owns_transaction)))
    return {
        key
        for key, holder in holders.items()
        if not holder.is_held and (holder.job_id in ended or key_of.get(holder.job_id, key) != key)
    }


def _find_in(sql: Dialect, table: str, ids: Sequence[UUID], owns_transaction: bool) -> Flow[list[UUID]]:
    """Those of the jobs that have a row in this table; rows that other transactions have locked are left out.

    The row is locked, so that the job stays there until the key was taken over.
    """
    if sql.locks_gaps and not owns_transaction:
        rows = yield sql.select(table, "job_id", list(ids), returns="u")
        ids = [row[0] for row in rows]
        if not ids:
            return []
    rows = yield sql.lock(table, "job_id", list(ids), skip_locked=True, is_ordered=True, returns="u")
    return [row[0] for row in rows]
