"""The same bounded counts for several names, such as queues, in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row


def read_each_name(sql: Dialect, names: Sequence[str], columns: Sequence[str]) -> Flow[list[Row]]:
    """Read these columns for each name, in the order of the names. A column is a scalar subquery with `{name}`.

    The subqueries must have the order of an index: where they are planned once for all names, the server does not know
    that a name is rare, and could read the whole table for it.
    """
    if not names:
        return []
    text, returns = ", ".join(columns), "." * len(columns)
    if sql.names_as_rows:
        each = text.format(name="n.name")
        rows = yield sql.statement(
            f"SELECT {each} FROM {sql.names_as_rows} ORDER BY n.place", list(names), returns=returns
        )
        return rows
    number = text.count("{name}")
    values = [name for name in names for _ in range(number)]
    rows = yield sql.statement(
        f"SELECT {', '.join([text.format(name='?')] * len(names))}", *values, returns=returns * len(names)
    )
    found = list(rows[0])
    return [found[at : at + len(columns)] for at in range(0, len(found), len(columns))]
