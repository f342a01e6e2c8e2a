"""Notify: wake the listening processes when there is something to claim. Only a hint: polling finds the jobs as well.

Sent after commit, not inside the transaction that enqueues: there it serializes all commits of the server. The
exception is a single job of a process that has not notified recently: see db/notify.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.store.names import NOTIFY_CHANNEL
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


@operation(transaction=False)
def notify(sql: Dialect, payload: str = "") -> Flow[None]:
    """Notify every listener; does nothing where the database has no notifications."""
    if sql.can_notify:
        yield sql.statement("SELECT pg_notify(?, ?)", NOTIFY_CHANNEL, payload, returns=".")
