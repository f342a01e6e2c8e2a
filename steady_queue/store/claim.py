"""Claim: ready jobs become the property of one process, for as many free slots as it has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.identity import new_claim_id
from steady_queue.store.job import Claim
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.job import Lane
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: The job's columns of a Claim, after its id, claim id and time.
JOB_COLUMNS = Claim._fields[3:]
CLAIM_TYPES = "".join(
    {"job_id": "u", "claim_id": "u"}.get(name, "t" if name.endswith("_at") else ".") for name in Claim._fields
)

#: The condition of the index over all queues: see ReadyExecution.
ANY_PRIORITY = "r.priority >= -32768"


class Wanted(NamedTuple):
    """What a process can start now: `limit` jobs of one lane, from these queues in this order, or from all."""

    process_id: UUID
    lane: Lane
    limit: int
    queues: Sequence[str] | None = None


def claim(sql: Dialect, *wanted: Wanted) -> Operation[list[Claim]]:
    """Take ready jobs: by order of queues, then priority, then age. A process without a row gets nothing.

    Several wishes are for different lanes of the same process and the same queues.
    """
    return Operation("claim", partial(_claim, sql, wanted), transaction=sql.at_once is None)


def _claim(sql: Dialect, wanted: Sequence[Wanted]) -> Flow[list[Claim]]:
    wanted = [_once_each(wish) for wish in wanted if wish.limit > 0 and (wish.queues is None or wish.queues)]
    if not wanted:
        return []
    if sql.at_once:
        rows = yield sql.at_once.claim(*wanted)
        return [Claim._make(row) for row in rows]
    picked: list[UUID] = []
    now: datetime | None = None
    for wish in wanted:
        found, at = yield from _pick(sql, wish)
        picked.extend(found)
        now = at or now
    if not picked or now is None:
        return []
    yield sql.say("DELETE FROM steady_queue_readyexecution WHERE job_id IN ?*", picked)
    claim_ids = {job_id: new_claim_id() for job_id in picked}
    yield sql.say_each(
        "INSERT INTO steady_queue_claimedexecution (job_id, claim_id, process_id, claimed_at) VALUES (?, ?, ?, ?)",
        [(job_id, claim_ids[job_id], wanted[0].process_id, now) for job_id in picked],
    )
    rows = yield sql.say(
        f"SELECT id, {', '.join(JOB_COLUMNS)} FROM steady_queue_job WHERE id IN ?*",
        picked,
        returns="u" + CLAIM_TYPES[3:],
    )
    jobs = {row[0]: row for row in rows}
    return [Claim(id_, claim_ids[id_], now, *jobs[id_][1:]) for id_ in picked if id_ in jobs]


def _once_each(wish: Wanted) -> Wanted:
    return wish if wish.queues is None else wish._replace(queues=list(dict.fromkeys(wish.queues)))


def _pick(sql: Dialect, wanted: Wanted) -> Flow[tuple[list[UUID], datetime | None]]:
    """The ids to take, held against other workers, and the database's time."""
    picked: list[UUID] = []
    now: datetime | None = None
    for queue in wanted.queues if wanted.queues is not None else (None,):
        table, its_queue = (sql.ready_all, ()) if queue is None else (sql.ready_by_queue, (queue,))
        place = "r.queue_name = ?" if its_queue else ANY_PRIORITY
        rows = yield sql.say(
            f"SELECT r.job_id, {sql.now} FROM {table} WHERE {place} AND r.lane = ?"
            " AND NOT EXISTS (SELECT 1 FROM steady_queue_pause p WHERE p.queue_name = r.queue_name)"
            " AND EXISTS (SELECT 1 FROM steady_queue_process o WHERE o.id = ?)"
            f" ORDER BY r.priority DESC, r.job_id LIMIT ?{sql.take_free}",
            *its_queue,
            wanted.lane,
            wanted.process_id,
            wanted.limit - len(picked),
            returns="ut",
        )
        for job_id, at in rows:
            picked.append(job_id)
            now = at
        if len(picked) >= wanted.limit:
            break
    return picked, now
