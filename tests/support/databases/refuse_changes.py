"""Rows that the database refuses to change, as the triggers and constraints of an application make them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from django.db import connections

from tests.support.databases.tables import query
from tests.support.wait import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

NAME = "sq_test_refuses"


@asynccontextmanager
async def refusing(
    alias: str, change: Literal["INSERT", "UPDATE", "DELETE"], table: str, *job_ids: UUID
) -> AsyncIterator[None]:
    """Until the end, the change of the rows of these jobs is a data error."""
    await in_thread(_refuse, alias, change, f"steady_queue_{table}", job_ids)
    try:
        yield
    finally:
        await in_thread(_allow, alias, f"steady_queue_{table}")


def _refuse(alias: str, change: str, table: str, job_ids: tuple[UUID, ...]) -> None:
    is_postgres = connections[alias].vendor == "postgresql"
    column = "id" if table == "steady_queue_job" else "job_id"
    ids = ", ".join(f"'{id_ if is_postgres else id_.hex}'" for id_ in job_ids)
    where = f"{'NEW' if change == 'INSERT' else 'OLD'}.{column} IN ({ids})"
    before = f"CREATE TRIGGER {NAME} BEFORE {change} ON {table}"
    match connections[alias].vendor:
        case "postgresql":
            query(
                alias,
                f"CREATE FUNCTION {NAME}() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'refused by a test' USING ERRCODE = '22003'; END $$",
            )
            query(alias, f"{before} FOR EACH ROW WHEN ({where}) EXECUTE FUNCTION {NAME}()")
        case "mysql":
            signal = "SIGNAL SQLSTATE '22003' SET MYSQL_ERRNO = 1264, MESSAGE_TEXT = 'refused by a test'"
            query(alias, f"{before} FOR EACH ROW BEGIN IF {where} THEN {signal}; END IF; END")
        case _:
            query(alias, f"{before} WHEN {where} BEGIN SELECT RAISE(ABORT, 'refused by a test'); END")


def _allow(alias: str, table: str) -> None:
    if connections[alias].vendor == "postgresql":
        query(alias, f"DROP TRIGGER {NAME} ON {table}")
        query(alias, f"DROP FUNCTION {NAME}()")
    else:
        query(alias, f"DROP TRIGGER {NAME}")
