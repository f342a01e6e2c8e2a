"""What the pages cost: `make bench-dashboard` measures them with many tasks, and this bounds their queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from benchmarks.dashboard.pages import find_pages
from tests.support.store.states import make_all_states
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from django.test import Client

MOST_QUERIES = 15


@pytest.mark.usually_on("postgres")
def test_no_page_makes_many_queries_on_the_database_of_the_queue(database: str, superuser: Client) -> None:
    make_all_states(SyncStore(database))
    pages = list(find_pages())
    assert len(pages) > 20
    counts: dict[str, int] = {}
    for page in pages:
        with CaptureQueriesContext(connections[database]) as queries:
            assert superuser.get(page.url).status_code == 200, page.name
        counts[page.name] = len(queries)
    assert {name: count for name, count in counts.items() if count > MOST_QUERIES} == {}
