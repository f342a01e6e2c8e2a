"""The overview: everything at a glance, in a bounded number of queries."""

from __future__ import annotations

import json

from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue.monitoring.limit_list import read_limits
from steady_queue.monitoring.overview import read_overview
from steady_queue.monitoring.statistics import read_day


def test_an_empty_queue_has_an_overview(database: str) -> None:
    with CaptureQueriesContext(connections[database]) as queries:
        overview = read_overview()
    assert len(queries) <= 11
    assert len(overview.hour) == 60
    assert [row.name for row in overview.queues]
    assert not any(count.number for count in overview.states.values())
    assert overview.attention == []
    json.dumps(overview.as_json())
    assert len(read_day()) == 24
    assert read_limits() == []
