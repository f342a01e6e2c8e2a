"""Queue heads: the first ready job of each queue, lane and priority, found by index lookups in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Heads that are looked for. MySQL and MariaDB end a recursion after 1,000 steps.
MAX_HEADS = 500


class QueueHead(NamedTuple):
    """The first ready job of a queue, lane and priority, and since when it is due."""

    queue_name: str
    lane: int
    priority: int
    job_id: UUID
    due_at: datetime


@operation(transaction=False)
def find_queue_heads(sql: Dialect, first_queue: str = "") -> Flow[list[QueueHead]]:
    """The first ready job of each queue, lane and priority, at most 500, in the order of the queues, from a queue on.

    Each step of the recursion looks up the first job behind those of the same queue, lane and priority: the servers do
    not skip through an index by themselves. Only scalar subqueries may refer to the step before on every server, so a
    step has one column, the id of the job.
    """
    order = "ORDER BY r.queue_name, r.lane, r.priority DESC, r.job_id LIMIT 1"

    def first(where: str) -> str:
        return f"(SELECT r.job_id FROM {sql.ready_by_queue} WHERE {where} {order})"

    next_head = ", ".join(
        (
            first("r.queue_name = c.queue_name AND r.lane = c.lane AND r.priority < c.priority"),
            first("r.queue_name = c.queue_name AND r.lane > c.lane"),
            first("r.queue_name > c.queue_name"),
        )
    )
    rows = yield sql.statement(
        f"WITH RECURSIVE heads(job_id, place) AS (SELECT {first('r.queue_name >= ?')}, 1 UNION ALL"
        f" SELECT COALESCE({next_head}), h.place + 1"
        " FROM heads h JOIN steady_queue_readyexecution c ON c.job_id = h.job_id WHERE h.place < ?)"
        " SELECT e.queue_name, e.lane, e.priority, e.job_id, COALESCE(j.scheduled_at, j.enqueued_at) FROM heads h"
        " JOIN steady_queue_readyexecution e ON e.job_id = h.job_id JOIN steady_queue_job j ON j.id = h.job_id"
        " ORDER BY h.place",
        first_queue,
        MAX_HEADS,
        returns="...ut",
    )
    return [QueueHead(str(name), int(lane), int(priority), id_, at) for name, lane, priority, id_, at in rows]
