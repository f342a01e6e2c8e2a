"""How many tasks are in each state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue.monitoring.counts import CappedCount
from steady_queue.monitoring.jobs.pages import find_page
from steady_queue.monitoring.jobs.search import JobSearch
from steady_queue.monitoring.state_counts import read_state_counts
from steady_queue.monitoring.states import JobState
from tests.support.store.jobs import job
from tests.support.store.states import old_job

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob
    from tests.support.store.stores import SyncStore


def test_the_tasks_of_each_state_are_counted_as_their_lists_show_them(
    database: str, store: SyncStore, states: dict[JobState, NewJob]
) -> None:
    store.enqueue(old_job(), old_job(scheduled_at=datetime.now(UTC) - timedelta(seconds=1)))
    with CaptureQueriesContext(connections[database]) as queries:
        summary = read_state_counts()
    assert len(queries) == 1
    shown = {state: len(find_page(JobSearch(state=state)).rows) for state in JobState}
    assert {state: count.number for state, count in summary.states.items()} == shown
    assert not any(count.is_capped for count in summary.states.values())
    assert summary.overdue.number == 1
    assert list(summary.states) == list(JobState)


def test_failures_are_counted_since_a_time(store: SyncStore, states: dict[JobState, NewJob]) -> None:
    now = datetime.now(UTC)
    assert [count.number for count in read_state_counts().failed_since.values()] == [0, 0]
    assert [count.number for count in read_state_counts(now + timedelta(hours=1)).failed_since.values()] == [0, 0]
    since = read_state_counts(now - timedelta(hours=1)).failed_since
    # The lost one has failed as well; the cancelled and the expired one have not.
    assert since == {JobState.FAILED: CappedCount(2), JobState.EXHAUSTED: CappedCount(1)}


def test_a_count_is_written_with_its_noun() -> None:
    counts = [CappedCount(0), CappedCount(1), CappedCount(1, is_capped=True), CappedCount(10_000, is_capped=True)]
    assert [count.counted("task") for count in counts] == ["0 tasks", "1 task", "1+ tasks", "10,000+ tasks"]
    assert [count.counted("task waits", "tasks wait") for count in counts[:2]] == ["0 tasks wait", "1 task waits"]


@pytest.mark.usually_on("sqlite")
def test_a_count_ends_at_its_limit(store: SyncStore) -> None:
    store.enqueue(*(old_job(id_ago) for id_ago in (timedelta(hours=1), timedelta(hours=2), timedelta(hours=3))))
    store.enqueue(job())
    states = read_state_counts(limit=2, looked_up=2).states
    assert states[JobState.READY] == CappedCount(2, True)
    assert states[JobState.LATE] == CappedCount(2, True)
    assert states[JobState.FAILED] == CappedCount(0)
