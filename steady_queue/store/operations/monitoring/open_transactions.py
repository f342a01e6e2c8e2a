"""Open transactions of others: while an old one is open, the server cannot remove the rows that were deleted since."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class OpenTransaction(NamedTuple):
    """A transaction: for how long it has been open, and the connection that has it."""

    seconds: float
    connection_id: int
    #: What the connection calls itself.
    name: str
    user: str


@operation(transaction=False)
def find_oldest_transaction(sql: Dialect, older_than_seconds: float) -> Flow[OpenTransaction | None]:
    """The oldest transaction that keeps the server from removing old rows, if it is older than that.

    Only transactions that the user of the database may see; SQLite has no such view.
    """
    if not sql.oldest_transaction:
        return None
    rows = yield sql.statement(sql.oldest_transaction, returns="....")
    if not rows or rows[0][0] is None or float(rows[0][0]) < older_than_seconds:
        return None
    seconds, connection_id, name, user = rows[0]
    return OpenTransaction(float(seconds), int(connection_id), str(name or ""), str(user or ""))
