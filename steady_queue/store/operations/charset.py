"""Character sets: on MySQL and MariaDB every text must be utf8mb4, and every name compared byte by byte.

A table gets the database's default character set. In one that is not utf8mb4, texts outside of it cannot be stored.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

CHARSET = "utf8mb4"
#: The columns that identify things: they are never equal unless their bytes are.
NAME_COLUMNS = frozenset({"queue_name", "task_path", "backend", "concurrency_key", "unique_key", "task_key"})
#: So many columns are named in a message.
MAX_COLUMNS_SHOWN = 5


class TextColumn(NamedTuple):
    table: str
    column: str
    charset: str
    collation: str


class TextColumnProblem(NamedTuple):
    """Columns that lose texts or confuse names, and the statements that mend them."""

    columns: Sequence[TextColumn]
    statements: Sequence[str]


def bytewise_collation(*, is_mariadb: bool) -> str:
    """The collation under which two texts are equal only when their bytes are."""
    # The defaults find 'A' equal to 'a', 'a ' equal to 'a', and any two emoji equal.
    return "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"


def find_text_column_problem(sql: Dialect) -> Operation[TextColumnProblem | None]:
    """The columns of the queue's tables that are not as they must be; None where all are, or where all always are."""
    # Used by migration 0005: must keep working on the schema of 0004.
    return Operation("text columns", partial(_unfit_text, sql), transaction=False)


def _unfit_text(sql: Dialect) -> Flow[TextColumnProblem | None]:
    if not sql.text_columns:
        return None
    rows = yield sql.say(sql.text_columns, returns="....")
    version = yield sql.say(sql.server_version, returns=".")
    collation = bytewise_collation(is_mariadb="mariadb" in str(version[0][0]).lower())
    return check_columns([TextColumn(*map(str, row)) for row in rows], collation)


def check_columns(columns: Iterable[TextColumn], bytewise: str) -> TextColumnProblem | None:
    """What is wrong with these columns, and how to convert their tables to that collation."""
    columns = sorted(columns)
    unfit = [
        one for one in columns if one.charset != CHARSET or (one.column in NAME_COLUMNS and one.collation != bytewise)
    ]
    if not unfit:
        return None
    tables = {one.table for one in unfit}
    if any(one.column in ("id", "job_id") for one in columns):
        # MySQL keeps ids as texts: those of all tables must have one collation, or joins find no index to use.
        tables = {one.table for one in columns if one.collation != bytewise}
    # Every text gets the collation of names: without it the conversion would give names the default one.
    convert = f"CONVERT TO CHARACTER SET {CHARSET} COLLATE {bytewise}"
    return TextColumnProblem(unfit, [f"ALTER TABLE {table} {convert}" for table in sorted(tables)])


def describe_problem(alias: str, unfit: TextColumnProblem) -> tuple[str, str]:
    """What to say of such columns, and what to do about them."""
    shown = [f"{one.table}.{one.column} ({one.collation})" for one in unfit.columns[:MAX_COLUMNS_SHOWN]]
    if len(unfit.columns) > MAX_COLUMNS_SHOWN:
        shown.append(f"{len(unfit.columns) - MAX_COLUMNS_SHOWN} more")
    said = (
        f"the database {alias!r} has columns that are not {CHARSET}, or names that are not compared byte by byte: "
        f"{', '.join(shown)}"
    )
    return said, f"run: {'; '.join(unfit.statements)}"
