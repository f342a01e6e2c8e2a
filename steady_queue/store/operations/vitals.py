"""Vitals: what the processes of one machine last said of themselves, beside the database's time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class Vitals(NamedTuple):
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


def find_vitals(sql: Dialect, hostname: str) -> Operation[list[Vitals]]:
    """The processes that registered under this host name, by name."""
    return Operation("vitals", partial(_find_vitals, sql, hostname), transaction=False)


def _find_vitals(sql: Dialect, hostname: str) -> Flow[list[Vitals]]:
    columns = ", ".join(Vitals._fields[:-1])
    rows = yield sql.say(
        f"SELECT {columns}, {sql.now} FROM steady_queue_process WHERE hostname = ? ORDER BY name",
        hostname,
        returns=".....uuttt",
    )
    return [Vitals._make(row) for row in rows]
