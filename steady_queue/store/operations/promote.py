"""Promote: blocked jobs become ready while their concurrency key has free slots.

A slot is a row owned by a job. It is never taken inside somebody else's transaction, where even an insert that ignores
conflicts waits for the other to end; only here, in a short transaction of our own:

1. lock the keys, as a statement of its own: the next one must see what the previous holder committed. (In one
   statement with the promotion, jobs were seen stranded beside free slots.) Keys hash into 1,024 lock ids, taken in
   ascending order.
2. read the slots taken and the first blocked jobs of each key, skipping rows that others hold;
3. grant in order while the key has fewer slots taken than the candidate's limit; the first refusal ends the key's turn.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar
from zlib import crc32

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row, Statement

T = TypeVar("T")

LOCK_ID_COUNT = 1024
#: Keys, and jobs, in one statement: servers bound the number of values.
KEYS_PER_STATEMENT = 1_000
JOBS_PER_STATEMENT = 5_000


class ByTaskPath(Protocol[T]):
    """What the code says about each task path that it knows: a mapping is one."""

    def get(self, path: str, otherwise: T, /) -> T: ...


#: The limit in force for each task path; the limit stored with the job serves for those that the code does not know.
Limits: TypeAlias = ByTaskPath[int]


class Grant(NamedTuple):
    """A slot for a job."""

    job_id: UUID
    concurrency_key: str
    slot: int


def lock_id(key: str) -> int:
    """Which of the lock ids guards this key; computed by the client, so that every server agrees."""
    return crc32(key.encode("utf-8", "surrogatepass")) % LOCK_ID_COUNT


def promotion(sql: Dialect, keys: Mapping[str, int], limits: Limits | None = None) -> Operation[list[UUID]]:
    """Promote these keys; the number beside each is the limit expected, which only decides how many rows are read."""
    return Operation("promote", partial(promote, sql, keys, limits or {}))


def promote(sql: Dialect, keys: Mapping[str, int], limits: Limits, wait_seconds: int | None = None) -> Flow[list[UUID]]:
    """Lock, look, grant; returns the jobs made ready. Must run inside a READ COMMITTED transaction of ours.

    `wait_seconds` bounds the wait for each key that somebody else has locked.
    """
    if not keys:
        return []
    yield from sql.lock_keys(sorted({lock_id(key) for key in keys}), wait_seconds)
    promoted: list[UUID] = []
    for part in chunks_of(list(keys.items()), KEYS_PER_STATEMENT):
        promoted += yield from _promote(sql, dict(part), limits)
    return promoted


def blocked_keys(sql: Dialect, after: str, most: int) -> Operation[list[str]]:
    """The next keys that have blocked jobs, in order."""
    return Operation("blocked keys", partial(find_blocked_keys, sql, after, most), transaction=False)


def find_next_blocked_job(sql: Dialect, key: str) -> Operation[UUID | None]:
    """The blocked job that is the next of its key."""
    return Operation("next blocked job", partial(_next_blocked_job, sql, key), transaction=False)


def promote_one(sql: Dialect, key: str, job_id: UUID, limits: Limits | None = None) -> Operation[bool]:
    """Make one blocked job ready if its key has a free slot for it."""
    return Operation("promote one", partial(_promote_one, sql, key, job_id, limits or {}))


def find_blocked_keys(sql: Dialect, after: str, most: int) -> Flow[list[str]]:
    """One step down the index for each key: the number of jobs behind a key does not matter."""
    rows = yield sql.say(sql.blocked_keys, after, most, returns=".")
    return [str(row[0]) for row in rows]


def _next_blocked_job(sql: Dialect, key: str) -> Flow[UUID | None]:
    rows = yield sql.say(
        f"SELECT job_id FROM {sql.blocked_by_key} WHERE concurrency_key = ? ORDER BY priority DESC, job_id LIMIT 1",
        key,
        returns="u",
    )
    return rows[0][0] if rows else None


def _promote_one(sql: Dialect, key: str, job_id: UUID, limits: Limits) -> Flow[bool]:
    yield from sql.lock_keys([lock_id(key)])
    slots = yield sql.say("SELECT slot FROM steady_queue_semaphore WHERE concurrency_key = ?", key, returns=".")
    held = yield sql.say(
        f"SELECT job_id FROM steady_queue_blockedexecution WHERE job_id IN ?*{sql.take_free}", [job_id], returns="u"
    )
    jobs = yield sql.say("SELECT concurrency_limit, task_path FROM steady_queue_job WHERE id = ?", job_id, returns="i.")
    candidates = [(key, job_id, stored, path) for stored, path in jobs] if held else []
    grants = allocate_slots({key: {row[0] for row in slots}}, candidates, limits)
    if grants:
        yield from grant_slots(sql, grants)
    return bool(grants)


def _promote(sql: Dialect, keys: Mapping[str, int], limits: Limits) -> Flow[list[UUID]]:
    rows = yield sql.say(
        "SELECT concurrency_key, slot FROM steady_queue_semaphore WHERE concurrency_key IN ?*", list(keys), returns=".."
    )
    taken: dict[str, set[int]] = {key: set() for key in keys}
    for key, slot in rows:
        taken[key].add(slot)
    promoted: list[UUID] = []
    # One candidate more than should be granted: its refusal shows that the turn is over. Without one, the limit in
    # force is larger than the one expected, and there may be more. A limit may be larger than any list can be.
    wants = {key: min(JOBS_PER_STATEMENT, max(1, limit - len(taken[key]) + 1)) for key, limit in keys.items()}
    while wants:
        candidates = yield from _first_blocked(sql, wants)
        grants = allocate_slots(taken, candidates, limits)
        for part in chunks_of(grants, JOBS_PER_STATEMENT):
            yield from grant_slots(sql, part)
        granted = Counter(grant.concurrency_key for grant in grants)
        promoted.extend(grant.job_id for grant in grants)
        for grant in grants:
            taken[grant.concurrency_key].add(grant.slot)
        wants = {key: min(JOBS_PER_STATEMENT, 2 * count) for key, count in wants.items() if granted[key] == count}
    return promoted


def limit_in_force(limits: Limits, path: str, stored: int | None) -> int:
    """The limit in force for a job of this path that was stored with that one."""
    return limits.get(path, stored or 1)


def allocate_slots(taken: Mapping[str, set[int]], candidates: Iterable[Row], limits: Limits) -> list[Grant]:
    """Who gets which slot. Candidates are (key, job id, stored limit, task path), in order within their key."""
    used = {key: set(slots) for key, slots in taken.items()}
    lowest: dict[str, int] = {}
    refused: set[str] = set()
    grants: list[Grant] = []
    for key, job_id, stored, path in candidates:
        if key in refused:
            continue
        if len(used[key]) >= limit_in_force(limits, path, stored):
            refused.add(key)
            continue
        slot = lowest.get(key, 1)
        while slot in used[key]:
            slot += 1
        used[key].add(slot)
        lowest[key] = slot + 1
        grants.append(Grant(job_id, key, slot))
    return grants


def _first_blocked(sql: Dialect, wants: Mapping[str, int]) -> Flow[Sequence[Row]]:
    if sql.single_statements:
        return (yield sql.single_statements.find_blocked(wants))
    found = yield from sql.first_blocked(wants)
    jobs: dict[UUID, Row] = {}
    for part in chunks_of([job_id for _, job_id in found], JOBS_PER_STATEMENT):
        rows = yield sql.say(
            "SELECT id, concurrency_limit, task_path FROM steady_queue_job WHERE id IN ?*", list(part), returns="ui."
        )
        jobs.update((row[0], row) for row in rows)
    return [(key, job_id, jobs[job_id][1], jobs[job_id][2]) for key, job_id in found if job_id in jobs]


def grant_slots(sql: Dialect, grants: Sequence[Grant]) -> Flow[None]:
    """Make blocked jobs ready, with these slots; their keys must be locked."""
    if sql.single_statements:
        yield sql.single_statements.grant(grants)
        return
    ids = [grant.job_id for grant in grants]
    now = (yield sql.say(f"SELECT {sql.now}", returns="t"))[0][0]
    yield sql.say("DELETE FROM steady_queue_blockedexecution WHERE job_id IN ?*", ids)
    yield sql.say_each(
        "INSERT INTO steady_queue_semaphore (job_id, concurrency_key, slot, acquired_at) VALUES (?, ?, ?, ?)",
        [(*grant, now) for grant in grants],
    )
    yield make_ready(sql, ids)


def make_ready(sql: Dialect, ids: Sequence[UUID]) -> Statement:
    """A ready row for each job, from the job's own columns."""
    return sql.say(
        "INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority)"
        " SELECT id, queue_name, lane, priority FROM steady_queue_job WHERE id IN ?*",
        list(ids),
    )


def insert_blocked(sql: Dialect, rows: Sequence[tuple[Any, ...]]) -> Statement:
    """A blocked row for each (job id, key, priority)."""
    return sql.say_each(
        "INSERT INTO steady_queue_blockedexecution (job_id, concurrency_key, priority) VALUES (?, ?, ?)", rows
    )


def discard_refused(sql: Dialect, ids: Sequence[UUID]) -> Flow[frozenset[UUID]]:
    """Delete those of the jobs, all to be discarded rather than wait, that still have no slot after a promotion.

    Whoever holds one discards it or lets it run: to wait for them would hold up all who need the key.
    """
    discarded: set[UUID] = set()
    for part in chunks_of(ids, JOBS_PER_STATEMENT):
        rows = yield sql.say(
            f"SELECT job_id FROM steady_queue_blockedexecution WHERE job_id IN ?*{sql.take_free}",
            list(part),
            returns="u",
        )
        refused = [row[0] for row in rows]
        if refused:
            yield sql.say("DELETE FROM steady_queue_blockedexecution WHERE job_id IN ?*", refused)
            yield sql.say("DELETE FROM steady_queue_job WHERE id IN ?*", refused)
        discarded.update(refused)
    return frozenset(discarded)


def chunks_of(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The values in pieces of at most this size."""
    for at in range(0, len(values), size):
        yield values[at : at + size]
