"""Promote: blocked jobs become ready while their concurrency key has free slots.

A slot is a row that belongs to a job. It is never taken inside the caller's transaction, where even an insert that
ignores conflicts waits for other transactions to end; only here, in a short transaction of our own:

1. lock the keys, as a separate statement: the next one must see what the previous holder committed. (In one
   statement with the promotion, jobs were seen to stay blocked although slots were free.) Keys hash into 1,024 lock
   ids, which are locked in ascending order.
2. read the taken slots and the first blocked jobs of each key, skipping rows that other transactions have locked;
3. grant slots in order while the key has fewer taken slots than the candidate's limit; the first candidate that finds
   no slot ends the key's turn.

PostgreSQL: see sql/postgres_statements.py.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar
from zlib import crc32

from steady_queue.store.names import LOCK_ID_COUNT
from steady_queue.store.operations.expiry import end_expired, is_expired
from steady_queue.store.operations.uniqueness.unique_keys import free_keys
from steady_queue.store.statement import chunks_of, operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row, Statement

T = TypeVar("T")

#: Keys, and jobs, in one statement: servers limit the number of values.
KEYS_PER_STATEMENT = 1_000
JOBS_PER_STATEMENT = 5_000


class ByTaskPath(Protocol[T]):
    """A value for each task path that the code knows: a mapping is one."""

    def get(self, path: str, otherwise: T, /) -> T: ...


#: The limit in force for each task path; the limit stored with the job applies to paths that the code does not know.
Limits: TypeAlias = ByTaskPath[int]

#: The limits stored with the jobs apply.
NO_LIMITS: Limits = {}


class Grant(NamedTuple):
    """A slot for a job."""

    job_id: UUID
    concurrency_key: str
    slot: int


def lock_id(key: str) -> int:
    """The lock id of this key; computed by the client, so that it is the same on every server."""
    return crc32(key.encode("utf-8", "surrogatepass")) % LOCK_ID_COUNT


@operation()
def promote(
    sql: Dialect, keys: Mapping[str, int], limits: Limits = NO_LIMITS, wait_seconds: int | None = None
) -> Flow[list[UUID]]:
    """Lock, read, grant; returns the jobs made ready. Must run inside a READ COMMITTED transaction of ours.

    Each key comes with the limit expected, which only decides how many rows are read. `wait_seconds` limits the wait
    for each key that another transaction has locked.
    """
    if not keys:
        return []
    yield from sql.lock_keys(sorted({lock_id(key) for key in keys}), wait_seconds)
    promoted: list[UUID] = []
    for chunk in chunks_of(list(keys.items()), KEYS_PER_STATEMENT):
        promoted += yield from _promote_locked(sql, dict(chunk), limits)
    return promoted


@operation(transaction=False)
def find_blocked_keys(sql: Dialect, after: str, count: int) -> Flow[list[str]]:
    """The next keys that have blocked jobs, in order.

    One index lookup for each key: the number of jobs of a key does not matter.
    """
    rows = yield sql.statement(sql.blocked_keys, after, count, returns=".")
    return [str(row[0]) for row in rows]


@operation(transaction=False)
def find_next_blocked_job(sql: Dialect, key: str) -> Flow[UUID | None]:
    """The blocked job that is the next of its key."""
    rows = yield sql.statement(
        f"SELECT job_id FROM {sql.blocked_by_key} WHERE concurrency_key = ? ORDER BY priority DESC, job_id LIMIT 1",
        key,
        returns="u",
    )
    return rows[0][0] if rows else None


@operation()
def promote_one(sql: Dialect, key: str, job_id: UUID, limits: Limits = NO_LIMITS) -> Flow[bool]:
    """Make one blocked job ready if its key has a free slot for it."""
    yield from sql.lock_keys([lock_id(key)])
    slots = yield sql.statement("SELECT slot FROM steady_queue_semaphore WHERE concurrency_key = ?", key, returns=".")
    locked = yield sql.lock("blockedexecution", "job_id", [job_id], skip_locked=True, returns="u")
    jobs = yield sql.statement(
        f"SELECT concurrency_limit, task_path FROM steady_queue_job{sql.by_id} WHERE id = ?", job_id, returns="i."
    )
    candidates = [(key, job_id, stored, path) for stored, path in jobs] if locked else []
    grants = allocate_slots({key: {row[0] for row in slots}}, candidates, limits)
    if grants:
        yield from grant_slots(sql, grants)
    return bool(grants)


def _promote_locked(sql: Dialect, keys: Mapping[str, int], limits: Limits) -> Flow[list[UUID]]:
    rows = yield sql.statement(
        "SELECT concurrency_key, slot FROM steady_queue_semaphore WHERE concurrency_key IN ?*", list(keys), returns=".."
    )
    taken: dict[str, set[int]] = {key: set() for key in keys}
    for key, slot in rows:
        taken[key].add(slot)
    promoted: list[UUID] = []
    # One candidate more than can be granted: if it finds no slot, the turn is over. If it gets one, the limit in force
    # is larger than the one expected, and more jobs may be granted. A limit may be larger than any list can be.
    wants = {key: min(JOBS_PER_STATEMENT, max(1, limit - len(taken[key]) + 1)) for key, limit in keys.items()}
    while wants:
        candidates = yield from _find_candidates(sql, wants)
        expired = [row for row in candidates if row[4]]
        if expired:
            candidates = [row for row in candidates if not row[4]]
            yield from _end_blocked(sql, [row[1] for row in expired])
        grants = allocate_slots(taken, candidates, limits)
        for chunk in chunks_of(grants, JOBS_PER_STATEMENT):
            yield from grant_slots(sql, chunk)
        handled = Counter(grant.concurrency_key for grant in grants) + Counter(row[0] for row in expired)
        promoted.extend(grant.job_id for grant in grants)
        for grant in grants:
            taken[grant.concurrency_key].add(grant.slot)
        wants = {key: min(JOBS_PER_STATEMENT, 2 * count) for key, count in wants.items() if handled[key] == count}
    return promoted


def limit_in_force(limits: Limits, path: str, stored: int | None) -> int:
    """The limit in force for a job of this task path that was stored with that limit."""
    return limits.get(path, stored or 1)


def allocate_slots(taken: Mapping[str, set[int]], candidates: Iterable[Row], limits: Limits) -> list[Grant]:
    """Which job gets which slot. A candidate begins with key, job id, stored limit and task path."""
    used = {key: set(slots) for key, slots in taken.items()}
    lowest: dict[str, int] = {}
    exhausted: set[str] = set()
    grants: list[Grant] = []
    for key, job_id, stored, path, *_ in candidates:
        if key in exhausted:
            continue
        if len(used[key]) >= limit_in_force(limits, path, stored):
            exhausted.add(key)
            continue
        slot = lowest.get(key, 1)
        while slot in used[key]:
            slot += 1
        used[key].add(slot)
        lowest[key] = slot + 1
        grants.append(Grant(job_id, key, slot))
    return grants


def _find_candidates(sql: Dialect, wants: Mapping[str, int]) -> Flow[Sequence[Row]]:
    if sql.single_statements:
        return (yield sql.single_statements.find_blocked(wants))
    found = yield from sql.first_blocked(wants)
    jobs: dict[UUID, Row] = {}
    for chunk in chunks_of([job_id for _, job_id in found], JOBS_PER_STATEMENT):
        columns = f"id, concurrency_limit, task_path, {is_expired(sql)}"
        rows = yield sql.select("job", columns, list(chunk), returns="ui.i")
        jobs.update((row[0], row) for row in rows)
    return [(key, job_id, *jobs[job_id][1:]) for key, job_id in found if job_id in jobs]


def _end_blocked(sql: Dialect, ids: Sequence[UUID]) -> Flow[None]:
    """End blocked jobs that have expired, and whose rows are locked: they must not take a slot."""
    for chunk in chunks_of(ids, JOBS_PER_STATEMENT):
        yield sql.delete("blockedexecution", list(chunk))
        yield from end_expired(sql, list(chunk))


def grant_slots(sql: Dialect, grants: Sequence[Grant]) -> Flow[None]:
    """Make blocked jobs ready, with these slots; their keys must be locked."""
    if sql.single_statements:
        yield sql.single_statements.grant(grants)
        return
    ids = [grant.job_id for grant in grants]
    now = (yield sql.statement(f"SELECT {sql.now}", returns="t"))[0][0]
    yield sql.delete("blockedexecution", ids)
    yield sql.statement_each(
        "INSERT INTO steady_queue_semaphore (job_id, concurrency_key, slot, acquired_at) VALUES (?, ?, ?, ?)",
        [(*grant, now) for grant in grants],
    )
    yield insert_ready(sql, ids)


def insert_ready(sql: Dialect, ids: Sequence[UUID]) -> Statement:
    """A ready row for each job, from the job's own columns."""
    return sql.statement(
        "INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority)"
        f" SELECT id, queue_name, lane, priority FROM steady_queue_job{sql.by_id} WHERE id IN ?*",
        list(ids),
    )


def insert_blocked(sql: Dialect, rows: Sequence[tuple[Any, ...]]) -> Statement:
    """A blocked row for each (job id, key, priority)."""
    return sql.statement_each(
        "INSERT INTO steady_queue_blockedexecution (job_id, concurrency_key, priority) VALUES (?, ?, ?)", rows
    )


def discard_without_slot(sql: Dialect, ids: Sequence[UUID]) -> Flow[frozenset[UUID]]:
    """Delete those of the jobs, which are all to be discarded rather than wait, that have no slot after a promotion.

    Rows that another transaction has locked are skipped: it discards the job or makes it ready, and to wait for it
    would delay every process that needs the key.
    """
    discarded: set[UUID] = set()
    for chunk in chunks_of(ids, JOBS_PER_STATEMENT):
        rows = yield sql.lock("blockedexecution", "job_id", list(chunk), skip_locked=True, returns="u")
        without_slot = [row[0] for row in rows]
        if without_slot:
            yield sql.delete("blockedexecution", without_slot)
            yield from free_keys(sql, without_slot, owns_transaction=True)
            yield sql.delete("job", without_slot)
        discarded.update(without_slot)
    return frozenset(discarded)
