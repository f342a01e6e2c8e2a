"""Database connections of user code, made fit for the next task: what Django does around each request."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from django.db import DatabaseError, InterfaceError, connections

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper


def tidy_connections(*, close: bool = False) -> None:
    """Undo a transaction that a task left open; drop connections that are broken, too old, or all."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is None:
            continue
        if connection.in_atomic_block or not connection.autocommit:
            roll_back(connection)
        with suppress(DatabaseError, InterfaceError):
            if close:
                connection.close()
            else:
                connection.close_if_unusable_or_obsolete()


def open_transaction() -> str | None:
    """The alias of a database on which this thread has a transaction open by mistake, if there is one."""
    for connection in connections.all(initialized_only=True):
        is_off = connection.connection is not None and connection.autocommit != connection.settings_dict["AUTOCOMMIT"]
        if connection.in_atomic_block or is_off:
            return connection.alias
    return None


def roll_back(connection: BaseDatabaseWrapper) -> None:
    """Undo a transaction whose blocks cannot be left properly any more; the next use connects again."""
    connection.in_atomic_block = False
    connection.savepoint_ids = []
    connection.needs_rollback = False
    connection.run_on_commit = []
    connection.atomic_blocks = []
    if connection.closed_in_transaction:
        connection.closed_in_transaction = False
        connection.connection = None
        return
    with suppress(DatabaseError, InterfaceError):
        connection.rollback()
    with suppress(DatabaseError, InterfaceError):
        connection.close()
