"""A database with the tables of another implementation: an enqueue says what to do, and changes nothing there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.errors import EnqueueError, StoreNotMigrated
from tests.shop import tasks
from tests.support.databases.aliases import pointed_at
from tests.support.databases.foreign_tables import foreign_jobs, foreign_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.enqueue import Put

pytestmark = pytest.mark.contract


@pytest.fixture
def foreign(unmigrated: str) -> Iterator[str]:
    with foreign_tables(unmigrated), pointed_at(unmigrated):
        yield unmigrated


def test_an_enqueue_names_the_cause_and_stores_nothing(foreign: str, put: Put) -> None:
    with pytest.raises(EnqueueError) as caught:
        put(tasks.anything, "ada")

    cause = str(caught.value.__cause__)
    assert isinstance(caught.value.__cause__, StoreNotMigrated)
    if foreign.startswith("sqlite"):
        assert "belong to another implementation, the distribution steady-queue" in cause
    else:
        assert f"run: python manage.py check --database {foreign}" in cause
    assert foreign_jobs(foreign) == [(1, "shop.tasks.add")]
