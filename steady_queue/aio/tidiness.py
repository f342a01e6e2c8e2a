"""Database connections of user code, made fit for the next task: what Django does around each request."""

from __future__ import annotations

from contextlib import suppress

from django.db import DatabaseError, InterfaceError, connections


def tidy_connections(*, close: bool = False) -> None:
    """Undo a transaction that a task left open; drop connections that are broken, too old, or all."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is None:
            continue
        if connection.in_atomic_block or not connection.autocommit:
            _undo(connection.alias)
        with suppress(DatabaseError, InterfaceError):
            if close:
                connection.close()
            else:
                connection.close_if_unusable_or_obsolete()


def _undo(alias: str) -> None:
    # The blocks that were left open cannot be left properly any more: begin anew with the next use.
    connection = connections[alias]
    connection.in_atomic_block = False
    connection.savepoint_ids = []
    connection.needs_rollback = False
    connection.run_on_commit = []
    with suppress(DatabaseError, InterfaceError):
        connection.rollback()
    connection.close()
