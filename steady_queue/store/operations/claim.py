"""Claim: ready jobs become the property of one process, for as many free slots as it has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.ids import new_claim_id
from steady_queue.store.job import Claim
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.job import Lane
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row

#: The job's columns of a Claim, after its id, claim id and time.
CLAIM_JOB_COLUMNS = Claim._fields[3:]
CLAIM_TYPES = "".join(
    {"job_id": "u", "claim_id": "u"}.get(name, "t" if name.endswith("_at") else ".") for name in Claim._fields
)

#: The condition of the index over all queues: see ReadyExecution.
ANY_PRIORITY = "r.priority >= -32768"


class ClaimRequest(NamedTuple):
    """What a process can start now: `limit` jobs of one lane, from these queues in this order."""

    process_id: UUID
    lane: Lane
    limit: int
    queues: Sequence[str] = ()


class ClaimedFromAll(NamedTuple):
    """What all queues gave, as if they were one."""

    claims: list[Claim]
    #: Nothing is taken from all queues while some queue rests: they have to be named.
    is_paused: bool


def claim(sql: Dialect, *wanted: ClaimRequest) -> Operation[list[Claim]]:
    """Take ready jobs: by order of queues, then priority, then age. A process without a row gets nothing.

    A queue that is paused gives nothing. Several wishes are for different lanes of the same process.
    """
    return Operation("claim", partial(_claim, sql, wanted), transaction=sql.single_statements is None)


def claim_from_all(sql: Dialect, *wanted: ClaimRequest) -> Operation[ClaimedFromAll]:
    """Take ready jobs of every queue by priority, then age, whatever queues are wished for.

    Only while no queue is paused. With one paused, its jobs would have to be stepped over, however many they are: so
    nothing is taken, and the answer says why.
    """
    return Operation("claim", partial(_claim_from_all, sql, wanted), transaction=sql.single_statements is None)


def _claim(sql: Dialect, wanted: Sequence[ClaimRequest]) -> Flow[list[Claim]]:
    wanted = [_once_each(wish) for wish in wanted if wish.limit > 0 and wish.queues]
    if not wanted:
        return []
    if sql.single_statements:
        rows = yield sql.single_statements.claim(*wanted)
        return [Claim._make(row) for row in rows]
    picked = Picked([], None)
    for wish in wanted:
        picked = picked.and_(*(yield from _pick(sql, wish)))
    return (yield from _taken(sql, wanted[0].process_id, picked))


def _claim_from_all(sql: Dialect, wanted: Sequence[ClaimRequest]) -> Flow[ClaimedFromAll]:
    wanted = [wish for wish in wanted if wish.limit > 0]
    if not wanted:
        return ClaimedFromAll([], False)
    if sql.single_statements:
        rows = yield sql.single_statements.claim_from_all(*wanted)
        return ClaimedFromAll([Claim._make(row) for row in rows if row[0] is not None], _has_sign(rows))
    picked, is_paused = Picked([], None), False
    for wish in wanted:
        rows = yield sql.say(
            f"SELECT * FROM (SELECT r.job_id, {sql.now} AS at FROM {sql.ready_all} WHERE {ANY_PRIORITY} AND r.lane = ?"
            " AND NOT EXISTS (SELECT 1 FROM steady_queue_pause)"
            " AND EXISTS (SELECT 1 FROM steady_queue_process o WHERE o.id = ?)"
            f" ORDER BY r.priority DESC, r.job_id LIMIT ?{sql.take_free}) t"
            f" UNION ALL SELECT * FROM (SELECT NULL AS job_id, NULL AS at {A_PAUSE}) s",
            *(wish.lane, wish.process_id, wish.limit),
            returns="ut",
        )
        picked = picked.and_(*(row for row in rows if row[0] is not None))
        is_paused = is_paused or _has_sign(rows)
    return ClaimedFromAll((yield from _taken(sql, wanted[0].process_id, picked)), is_paused)


#: A row, whatever it has, when some queue is paused.
A_PAUSE = "FROM steady_queue_pause LIMIT 1"


def _has_sign(rows: Sequence[Row]) -> bool:
    return bool(rows) and rows[-1][0] is None


class Picked(NamedTuple):
    """The ids to take, held against other workers, and the database's time."""

    ids: list[UUID]
    at: datetime | None

    def and_(self, *rows: Row) -> Picked:
        return Picked([*self.ids, *(row[0] for row in rows)], rows[-1][1] if rows else self.at)


def _once_each(wish: ClaimRequest) -> ClaimRequest:
    return wish._replace(queues=list(dict.fromkeys(wish.queues)))


def _pick(sql: Dialect, wanted: ClaimRequest) -> Flow[list[Row]]:
    picked: list[Row] = []
    for queue in wanted.queues:
        rows = yield sql.say(
            f"SELECT r.job_id, {sql.now} FROM {sql.ready_by_queue} WHERE r.queue_name = ? AND r.lane = ?"
            # About the name and not about each row: a queue that rests may have any number of them.
            " AND NOT EXISTS (SELECT 1 FROM steady_queue_pause p WHERE p.queue_name = ?)"
            " AND EXISTS (SELECT 1 FROM steady_queue_process o WHERE o.id = ?)"
            f" ORDER BY r.priority DESC, r.job_id LIMIT ?{sql.take_free}",
            *(queue, wanted.lane, queue, wanted.process_id, wanted.limit - len(picked)),
            returns="ut",
        )
        picked.extend(rows)
        if len(picked) >= wanted.limit:
            break
    return picked


def _taken(sql: Dialect, process_id: UUID, picked: Picked) -> Flow[list[Claim]]:
    """Make claims of what was picked."""
    ids, now = picked
    if not ids or now is None:
        return []
    yield sql.say("DELETE FROM steady_queue_readyexecution WHERE job_id IN ?*", ids)
    claim_ids = {job_id: new_claim_id() for job_id in ids}
    yield sql.say_each(
        "INSERT INTO steady_queue_claimedexecution (job_id, claim_id, process_id, claimed_at) VALUES (?, ?, ?, ?)",
        [(job_id, claim_ids[job_id], process_id, now) for job_id in ids],
    )
    rows = yield sql.say(
        f"SELECT id, {', '.join(CLAIM_JOB_COLUMNS)} FROM steady_queue_job WHERE id IN ?*",
        ids,
        returns="u" + CLAIM_TYPES[3:],
    )
    jobs = {row[0]: row for row in rows}
    return [Claim(id_, claim_ids[id_], now, *jobs[id_][1:]) for id_ in ids if id_ in jobs]
