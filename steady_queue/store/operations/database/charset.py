"""Character sets: on MySQL and MariaDB every text column must be utf8mb4, and names must be compared byte by byte.

A table gets the database's default character set. If that is not utf8mb4, it cannot store every text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

CHARSET = "utf8mb4"
#: The columns with names: two names are equal only when their bytes are.
NAME_COLUMNS = frozenset({"queue_name", "task_path", "backend", "concurrency_key", "unique_key", "task_key"})
#: Columns that a message names.
MAX_COLUMNS_SHOWN = 5


class TextColumn(NamedTuple):
    table: str
    column: str
    charset: str
    collation: str


class TextColumnProblem(NamedTuple):
    """Columns with a wrong character set or collation, and the statements that convert them."""

    columns: Sequence[TextColumn]
    statements: Sequence[str]


def bytewise_collation(*, is_mariadb: bool) -> str:
    """The collation under which two texts are equal only when their bytes are."""
    # In the default collations 'A' equals 'a', 'a ' equals 'a', and any two emoji are equal.
    return "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"


@operation(transaction=False)
def find_text_column_problem(sql: Dialect) -> Flow[TextColumnProblem | None]:
    """The text columns of the queue's tables that must be converted; None where there are none."""
    # Used by migration 0001: must keep working on the tables that it creates.
    if not sql.text_columns:
        return None
    rows = yield sql.statement(sql.text_columns, returns="....")
    version = yield sql.statement(sql.server_version, returns=".")
    collation = bytewise_collation(is_mariadb="mariadb" in str(version[0][0]).lower())
    return check_columns([TextColumn(*map(str, row)) for row in rows], collation)


def check_columns(columns: Iterable[TextColumn], bytewise: str) -> TextColumnProblem | None:
    """The columns that must be converted, and the statements that convert their tables to that collation."""
    columns = sorted(columns)
    wrong = [
        one for one in columns if one.charset != CHARSET or (one.column in NAME_COLUMNS and one.collation != bytewise)
    ]
    if not wrong:
        return None
    tables = {one.table for one in wrong}
    if any(one.column in ("id", "job_id") for one in columns):
        # MySQL stores ids as text: all tables must have one collation, or joins cannot use an index.
        tables = {one.table for one in columns if one.collation != bytewise}
    # Every text column gets the collation of names: otherwise the conversion would set the default collation on names.
    convert = f"CONVERT TO CHARACTER SET {CHARSET} COLLATE {bytewise}"
    return TextColumnProblem(wrong, [f"ALTER TABLE {table} {convert}" for table in sorted(tables)])


def describe_text_columns(alias: str, problem: TextColumnProblem) -> tuple[str, str]:
    """The error message for such columns, and the hint with the statements that convert them."""
    shown = [f"{one.table}.{one.column} ({one.collation})" for one in problem.columns[:MAX_COLUMNS_SHOWN]]
    if len(problem.columns) > MAX_COLUMNS_SHOWN:
        shown.append(f"{len(problem.columns) - MAX_COLUMNS_SHOWN} more")
    message = (
        f"the database {alias!r} has columns that are not {CHARSET}, or names that are not compared byte by byte: "
        f"{', '.join(shown)}"
    )
    return message, f"run: {'; '.join(problem.statements)}"
