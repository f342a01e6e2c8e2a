"""Requests to processes: stop, or reply with the stack of a running task. All times are the database's.

A request is a row that its process reads and writes its reply into. A process that is dead never replies. Rows are few:
they are deleted after some minutes, whether they have a reply or not, so they need no index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import RequestKind
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: How long a request is kept.
KEEP_SECONDS = 600.0


class NewRequest(NamedTuple):
    """A request to be inserted, in the order of its columns."""

    id: UUID
    process_id: UUID
    kind: int
    job_id: UUID | None
    requested_by: str


class OpenRequest(NamedTuple):
    """A request without a reply, and the database's time."""

    id: UUID
    process_id: UUID
    kind: int
    job_id: UUID | None
    requested_by: str
    now: datetime


class RequestReply(NamedTuple):
    """A request, what its process has replied, a JSON object or None, and the database's time."""

    job_id: UUID | None
    requested_at: datetime
    reply: str | None
    replied_at: datetime | None
    now: datetime


@operation()
def request_stop(sql: Dialect, request_id: UUID, process_id: UUID, by: str) -> Flow[bool]:
    """Ask a process to stop; False if no process has this id."""
    text = f"SELECT id FROM steady_queue_process{sql.by_id} WHERE id = ?"
    if not (yield sql.statement(text, process_id, returns="u")):
        return False
    yield from _insert(sql, NewRequest(request_id, process_id, RequestKind.STOP.value, None, by))
    return True


@operation()
def request_stack(sql: Dialect, request_id: UUID, job_id: UUID, by: str) -> Flow[bool]:
    """Ask the process that runs a job for its stack; False if no process runs it."""
    text = f"SELECT process_id FROM steady_queue_claimedexecution{sql.by_id} WHERE job_id = ?"
    rows = yield sql.statement(text, job_id, returns="u")
    if not rows:
        return False
    yield from _insert(sql, NewRequest(request_id, rows[0][0], RequestKind.STACK.value, job_id, by))
    return True


@operation(transaction=False)
def find_open_requests(sql: Dialect, process_ids: Sequence[UUID]) -> Flow[list[OpenRequest]]:
    """The requests to these processes that have no reply, the oldest first."""
    columns = ", ".join(NewRequest._fields)
    rows = yield sql.statement(
        f"SELECT {columns}, {sql.now}{from_open_requests()} ORDER BY requested_at, id",
        list(process_ids),
        returns="uuiu.t",
    )
    return [OpenRequest._make(row) for row in rows]


@operation(transaction=False)
def write_reply(sql: Dialect, request_id: UUID, reply: str) -> Flow[None]:
    """Write what a process replies to a request."""
    text = f"UPDATE steady_queue_processrequest{sql.by_id} SET reply = ?, replied_at = {sql.now} WHERE id = ?"
    yield sql.statement(text, reply, request_id)


@operation(transaction=False)
def find_reply(sql: Dialect, request_id: UUID) -> Flow[RequestReply | None]:
    """The reply to a request; None if there is no such request."""
    columns = ", ".join(RequestReply._fields[:-1])
    text = f"SELECT {columns}, {sql.now} FROM steady_queue_processrequest{sql.by_id} WHERE id = ?"
    rows = yield sql.statement(text, request_id, returns="ut.tt")
    return RequestReply._make(rows[0]) if rows else None


@operation(transaction=False)
def delete_old_requests(sql: Dialect) -> Flow[None]:
    """Delete requests that were made too long ago to be of interest."""
    yield sql.statement(f"DELETE{from_old_requests(sql)}")


def from_open_requests(ids: str = "?*") -> str:
    """The requests to some processes that have no reply."""
    return f" FROM steady_queue_processrequest WHERE replied_at IS NULL AND process_id IN {ids}"


def from_old_requests(sql: Dialect) -> str:
    """The requests that are deleted."""
    return f" FROM steady_queue_processrequest WHERE requested_at < {sql.ago(KEEP_SECONDS)}"


def _insert(sql: Dialect, request: NewRequest) -> Flow[None]:
    columns = ", ".join(NewRequest._fields)
    yield sql.statement(
        f"INSERT INTO steady_queue_processrequest ({columns}, requested_at)"
        f" VALUES ({', '.join('?' * len(request))}, {sql.now})",
        *request,
    )
