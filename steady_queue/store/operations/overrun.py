"""Overrun: a job that runs longer than its limit's duration lets its slot go, where its limit says so.

It goes on, and another of its key may start beside it. Who gives it back finds it without a slot: see settle.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.operations.promote import expected, promote
from steady_queue.store.operations.prune import BATCH
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class Overran(NamedTuple):
    """A job that runs on without its slot."""

    job_id: UUID
    task_path: str
    concurrency_key: str


def let_go(sql: Dialect, limits: Limits | None = None, *, promoting: bool = True) -> Operation[list[Overran]]:
    """Take the slots of jobs that have run for longer than theirs allow, and promote their keys unless told not to."""
    return Operation("let go", partial(_let_go, sql, limits or {}, promoting))


def overrun(sql: Dialect) -> str:
    """Where the slots, the claims and the jobs are that this is about."""
    return (
        " FROM steady_queue_semaphore s JOIN steady_queue_claimedexecution c ON c.job_id = s.job_id"
        " JOIN steady_queue_job j ON j.id = s.job_id WHERE j.overrun_after >= 0"
        f" AND c.claimed_at < {sql.microseconds_ago('j.overrun_after')}"
    )


def _let_go(sql: Dialect, limits: Limits, promoting: bool) -> Flow[list[Overran]]:
    if not (yield from sql.try_maintenance()):
        return []
    rows = yield sql.say(f"SELECT s.job_id{overrun(sql)} LIMIT ?", BATCH, returns="u")
    if not rows:
        return []
    # Held, so that it is not given back meanwhile with the slot that it loses here; who is just being settled is left.
    rows = yield sql.say(
        f"SELECT job_id FROM steady_queue_claimedexecution WHERE job_id IN ?* ORDER BY job_id{sql.take_free}",
        [row[0] for row in rows],
        returns="u",
    )
    if not rows:
        return []
    # Once more: it may have been given back and claimed anew before it was held.
    rows = yield sql.say(
        f"SELECT s.job_id, j.task_path, s.concurrency_key, j.concurrency_limit{overrun(sql)} AND s.job_id IN ?*",
        [row[0] for row in rows],
        returns="u..i",
    )
    if not rows:
        return []
    yield sql.say("DELETE FROM steady_queue_semaphore WHERE job_id IN ?*", [row[0] for row in rows])
    if promoting:
        yield from promote(sql, {key: expected(limits, path, stored) for _, path, key, stored in rows}, limits)
    return [Overran(job_id, path, key) for job_id, path, key, _ in rows]
