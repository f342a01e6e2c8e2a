"""Tables as the other implementation with the import name `steady_queue` creates them, with one job."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.databases.tables import query
from tests.support.databases.unmigrated import marked_as_migrated

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLES = {
    "steady_queue_job": "queue_name varchar(255), class_name varchar(255), arguments text, priority integer,"
    " django_task_id varchar(255), scheduled_at timestamp, finished_at timestamp, concurrency_key varchar(255)",
    "steady_queue_readyexecution": "job_id bigint, queue_name varchar(255), priority integer",
    "steady_queue_process": "kind varchar(255), name varchar(255), pid integer, hostname varchar(255)",
}


@contextmanager
def foreign_tables(alias: str) -> Iterator[None]:
    """Create the tables in an empty database, and mark a migration of the same name as ours as applied."""
    for table, columns in _TABLES.items():
        query(alias, f"CREATE TABLE {table} (id bigint PRIMARY KEY, created_at timestamp, {columns})")
    query(alias, "INSERT INTO steady_queue_job (id, class_name) VALUES (1, 'shop.tasks.add')")
    with marked_as_migrated(alias, "0001_initial"):
        yield


def foreign_jobs(alias: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in query(alias, "SELECT id, class_name FROM steady_queue_job")]
