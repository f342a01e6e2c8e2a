"""Notify: tell listening processes that there is something to claim. Only a hint; polling finds it anyway.

Sent after commit, not inside the transaction that enqueues: there it makes all commits of the server queue up. The
exception is a single job of a process that has been quiet: see wake.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

NOTIFY_CHANNEL = "steady_queue"


def notify(sql: Dialect, payload: str = "") -> Operation[None]:
    """Notify every listener; does nothing where the database cannot."""
    return Operation("notify", partial(_notify, sql, payload), transaction=False)


def _notify(sql: Dialect, payload: str) -> Flow[None]:
    if sql.can_notify:
        yield sql.say("SELECT pg_notify(?, ?)", NOTIFY_CHANNEL, payload, returns=".")
