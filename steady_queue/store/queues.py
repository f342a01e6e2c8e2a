"""Queues: their names, found without reading their jobs, and news of a change where the database tells cheaply."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


def queue_names(sql: Dialect) -> Operation[list[str]]:
    """The names of the queues that have ready jobs, in order: one step down the index for each name."""
    return Operation("queue names", partial(_queue_names, sql), transaction=False)


def change_marker(sql: Dialect) -> Operation[int | None]:
    """A number that changes when another connection has written; None where the database has no such thing."""
    return Operation("change marker", partial(_change_marker, sql), transaction=False)


def _queue_names(sql: Dialect) -> Flow[list[str]]:
    rows = yield sql.say(sql.distinct_queues, returns=".")
    return [row[0] for row in rows]


def _change_marker(sql: Dialect) -> Flow[int | None]:
    if not sql.change_marker:
        return None
    rows = yield sql.say(sql.change_marker, returns=".")
    return int(rows[0][0])
