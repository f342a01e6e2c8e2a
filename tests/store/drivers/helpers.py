"""Statements and waits for the tests of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connections

from steady_queue.store.statement import Operation
from tests.support.databases.tables import query
from tests.support.store.statements import only

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.statement import Flow
    from tests.support.store.stores import Store


def asking(store: Store, text: str, *params: Any, returns: str = ".", in_transaction: bool) -> Operation[Any]:
    statement = store.sql.statement(text, *params, returns=returns)
    return Operation("ask", lambda: only(statement), transaction=in_transaction)


def waiting(alias: str, statement: str, id_: UUID) -> list[int]:
    """The sessions in which such a statement about this row waits for a lock."""
    if connections[alias].vendor == "postgresql":
        query(alias, "SELECT pg_stat_clear_snapshot()")  # a transaction sees the same activity for ever
        text = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        return [session for (session,) in query(alias, text, f"{statement}%")]
    # The values are part of the text here, and while such a statement is under way it can only be waiting.
    text = "SELECT id FROM information_schema.processlist WHERE info LIKE %s AND id <> connection_id()"
    return [session for (session,) in query(alias, text, f"{statement.split()[0]}%{id_.hex}%")]


def select_one(driver: AsyncDriver) -> Flow[Any]:
    return (yield driver.sql.statement("SELECT 1", returns="."))
