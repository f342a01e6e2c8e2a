"""Processes: register, beat, deregister. All times are the database's.

Vitals: what the processes of one machine last said of themselves, beside the database's time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class NewProcess(NamedTuple):
    """A process that starts to work. Its id is made by whoever starts it."""

    id: UUID
    kind: str
    name: str
    pid: int
    hostname: str
    supervisor_id: UUID | None = None
    metadata: str = "{}"


def register(sql: Dialect, process: NewProcess) -> Operation[None]:
    """Add the process's row; registering again renews it."""
    return Operation("register", partial(_register, sql, process))


def heartbeat(sql: Dialect, process_id: UUID, polled_ago: float | None = None) -> Operation[bool]:
    """Say that the process is alive. False: others have declared it dead and removed its row.

    `polled_ago`: how many seconds ago it last looked for work with success, if it is known.
    """
    # Without a transaction: a process that is frozen between the statements would hold its own row, and could not be
    # pruned for as long as it is frozen.
    return Operation("heartbeat", partial(_heartbeat, sql, process_id, polled_ago), transaction=False)


def write_metadata(sql: Dialect, process_id: UUID, metadata: Callable[[datetime], str]) -> Operation[None]:
    """Replace the metadata of the process's row; `metadata` is called with the database's time."""
    return Operation("write metadata", partial(_write_metadata, sql, process_id, metadata))


def deregister(sql: Dialect, process_id: UUID) -> Operation[None]:
    """Remove the process's row. Its claims must have been settled before."""
    return Operation("deregister", partial(_deregister, sql, process_id), transaction=False)


def _register(sql: Dialect, process: NewProcess) -> Flow[None]:
    yield sql.say("DELETE FROM steady_queue_process WHERE id = ?", process.id)
    columns = ", ".join(NewProcess._fields)
    yield sql.say(
        f"INSERT INTO steady_queue_process ({columns}, started_at, last_heartbeat_at)"
        f" VALUES ({', '.join('?' * len(process))}, {sql.now}, {sql.now})",
        *process,
    )


def _heartbeat(sql: Dialect, process_id: UUID, polled_ago: float | None) -> Flow[bool]:
    beat = f"UPDATE steady_queue_process SET last_heartbeat_at = {sql.now}"
    if polled_ago is None:
        yield sql.say(f"{beat} WHERE id = ?", process_id)
    else:
        microseconds = round(polled_ago * 1_000_000)
        yield sql.say(f"{beat}, polled_at = {sql.given_ago} WHERE id = ?", microseconds, process_id)
    # MySQL has no RETURNING, and counts a row that did not change as not affected.
    return bool((yield sql.say("SELECT id FROM steady_queue_process WHERE id = ?", process_id, returns="u")))


def _write_metadata(sql: Dialect, process_id: UUID, metadata: Callable[[datetime], str]) -> Flow[None]:
    rows = yield sql.say(f"SELECT {sql.now}", returns="t")
    yield sql.say("UPDATE steady_queue_process SET metadata = ? WHERE id = ?", metadata(rows[0][0]), process_id)


def _deregister(sql: Dialect, process_id: UUID) -> Flow[None]:
    yield sql.say("DELETE FROM steady_queue_process WHERE id = ?", process_id)


class ProcessHealth(NamedTuple):
    """One process, as its row tells it, and what time it is."""

    kind: str
    name: str
    pid: int
    hostname: str
    metadata: str
    id: UUID
    supervisor_id: UUID | None
    last_heartbeat_at: datetime
    polled_at: datetime | None
    now: datetime


def find_process_health(sql: Dialect, hostname: str) -> Operation[list[ProcessHealth]]:
    """The processes that registered under this host name, by name."""
    return Operation("vitals", partial(_find_vitals, sql, hostname), transaction=False)


def _find_vitals(sql: Dialect, hostname: str) -> Flow[list[ProcessHealth]]:
    columns = ", ".join(ProcessHealth._fields[:-1])
    rows = yield sql.say(
        f"SELECT {columns}, {sql.now} FROM steady_queue_process WHERE hostname = ? ORDER BY name",
        hostname,
        returns=".....uuttt",
    )
    return [ProcessHealth._make(row) for row in rows]
