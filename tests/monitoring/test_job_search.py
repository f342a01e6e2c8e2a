"""A search as the parameters of an URL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.http import QueryDict

from steady_queue.monitoring.jobs.search import InvalidSearch, JobSearch
from steady_queue.monitoring.states import JobState

FULL = JobSearch(
    state=JobState.FAILED,
    queue="mail",
    task="shop.tasks.send",
    since=datetime(2026, 1, 31, 12, 30, 0, 5, tzinfo=UTC),
    before=datetime(2026, 2, 1, tzinfo=UTC),
    error="builtins.ValueError",
    key="customer/1 & <2>",
    worker="host:1",
    text="Grüße \u202e",
    id="0199",
)


def test_a_search_is_the_same_after_its_way_through_an_url() -> None:
    query = QueryDict(mutable=True)
    query.update(FULL.to_query())
    assert JobSearch.from_query(QueryDict(query.urlencode())) == FULL
    assert JobSearch().to_query() == {}
    assert JobSearch.from_query({"state": "", "queue": "  ", "p": "3", "after": "x"}) == JobSearch()


def test_each_filter_can_be_removed() -> None:
    for name in FULL.filters():
        assert set(FULL.without(name).filters()) == set(FULL.filters()) - {name}


def test_times_may_be_dates_and_spans_before_now() -> None:
    search = JobSearch.from_query({"since": "2h", "before": "2026-01-31"})
    assert search.since is not None
    assert abs(datetime.now(UTC) - timedelta(hours=2) - search.since) < timedelta(minutes=1)
    assert search.before is not None


def test_an_id_is_given_by_its_first_digits_in_any_form() -> None:
    search = JobSearch.from_query({"id": " 0199ABCD-12 "})
    assert search.id == "0199abcd12"
    bounds = search.id_range()
    assert bounds is not None
    assert [str(bound) for bound in bounds] == [
        "0199abcd-1200-7000-8000-000000000000",
        "0199abcd-12ff-7fff-bfff-ffffffffffff",
    ]
    assert JobSearch().id_range() is None


@pytest.mark.parametrize(
    "query",
    [
        {"state": "lost?"},
        {"since": "yesterday"},
        {"before": "99999999999w"},
        {"since": "0001-01-01T00:00:00+14:00"},
        {"id": "x' OR 1=1--"},
        {"id": "0" * 33},
        {"queue": "x" * 256},
        {"worker": "\x00"},
        {"text": "x" * 501},
        {"key": "\ud800"},
    ],
)
def test_what_is_not_possible_is_refused_rather_than_ignored(query: dict[str, str]) -> None:
    with pytest.raises(InvalidSearch):
        JobSearch.from_query(query)
