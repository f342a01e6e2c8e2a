"""The tables and columns of a database, compared with those that this version uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.aio.process.startup import describe_schema, known_shapes
from steady_queue.store.operations.database.table_shapes import (
    describe_foreign_tables,
    describe_missing_columns,
    find_shapes,
)
from tests.support.databases.foreign_tables import foreign_tables
from tests.support.store.stores import SyncStore, async_store

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from tests.support.store.stores import Store

EXPECTED = {"steady_queue_job": {"id", "lane"}, "steady_queue_pause": {"queue_name"}}


def test_a_migrated_database_has_every_table_and_column(store: Store) -> None:
    shapes = store.run(find_shapes(store.sql))

    assert shapes == known_shapes()
    assert len(shapes) == 18
    assert describe_schema(store.alias, shapes, ["0001_initial", "0002_task_control", "0003_dashboard"]) is None


def test_a_database_without_tables_has_no_shapes(unmigrated: str, portal: BlockingPortal) -> None:
    with async_store(unmigrated, portal) as other:
        for store in (SyncStore(unmigrated), other):
            assert store.run(find_shapes(store.sql)) == {}
    assert "lacks migrations" in str(describe_schema("default", {}, []))


def test_the_tables_of_the_other_implementation_are_recognised(unmigrated: str, portal: BlockingPortal) -> None:
    with foreign_tables(unmigrated), async_store(unmigrated, portal) as other:
        for store in (SyncStore(unmigrated), other):
            shapes = store.run(find_shapes(store.sql))
            text = str(describe_schema(unmigrated, shapes, ["0001_initial", "0002_x"]))
            assert f"in the database '{unmigrated}' belong to another implementation" in text
            assert "pip install steady-queue." in text
            assert "steady_queue.database" in text


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (EXPECTED, None),
        (EXPECTED | {"steady_queue_other": {"id"}}, None),
        ({**EXPECTED, "steady_queue_job": {"id", "lane", "column_of_the_project"}}, None),
        ({"steady_queue_job": {"id", "lane"}}, "are applied: steady_queue_pause; "),
        ({**EXPECTED, "steady_queue_job": {"id"}}, "are applied: steady_queue_job.lane; "),
    ],
)
def test_missing_tables_and_columns_are_named(found: dict[str, set[str]], named: str | None) -> None:
    text = describe_missing_columns("jobs", found, EXPECTED)

    if named is None:
        assert text is None
    else:
        assert named in str(text)
        assert "run: python manage.py migrate steady_queue zero --database=jobs" in str(text)


def test_a_message_names_some_of_many_missing_columns() -> None:
    expected = {"steady_queue_job": {f"column_{number}" for number in range(8)}}

    text = str(describe_missing_columns("default", {"steady_queue_job": set()}, expected))
    assert "steady_queue_job.column_4 and 3 more; " in text


def test_a_table_of_jobs_with_one_of_these_columns_only_is_not_foreign() -> None:
    assert describe_foreign_tables("default", {"steady_queue_job": {"id", "class_name"}}) is None
