"""Lists of tasks: every task is in the list of its state, on pages that are complete and have no task twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.monitoring.job_pages import count_matches, find_page
from steady_queue.monitoring.job_search import JobSearch
from steady_queue.monitoring.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from steady_queue.store.job import NewJob
    from tests.support.store.stores import SyncStore

Jobs = dict[JobState, "NewJob"]


def ids_in(state: JobState | None, **filters: object) -> list[UUID]:
    """The ids on the first page."""
    return [row.id for row in find_page(JobSearch(state=state, **filters)).rows]  # type: ignore[arg-type]


def pages_of(search: JobSearch, size: int) -> Iterator[list[UUID]]:
    cursor = None
    while True:
        page = find_page(search, after=cursor, size=size)
        yield [row.id for row in page.rows]
        cursor = page.next_cursor
        if cursor is None:
            return


def test_each_task_is_in_the_list_of_its_state_and_in_no_other(store: SyncStore, states: Jobs) -> None:
    expected = {state: [new.id] for state, new in states.items()}
    # A lost task has failed, and one that is late is scheduled as well.
    expected[JobState.FAILED].insert(0, states[JobState.LOST].id)
    expected[JobState.SCHEDULED].insert(0, states[JobState.LATE].id)
    assert {state: ids_in(state) for state in JobState} == expected
    assert {state: count_matches(JobSearch(state=state)).number for state in JobState} == {
        state: len(ids) for state, ids in expected.items()
    }
    for state, new in states.items():
        (row,) = [row for row in find_page(JobSearch(state=state)).rows if row.id == new.id]
        assert row.state is (JobState.SCHEDULED if state is JobState.LATE else state)
        assert row.is_late is (state is JobState.LATE)
        assert row.at is not None
    assert sorted(ids_in(None)) == sorted(new.id for new in states.values())
    assert ids_in(None)[-1] == states[JobState.LATE].id  # it was enqueued an hour ago


def test_pending_active_dirty_failed_and_future_tasks_have_lists(store: SyncStore, states: Jobs) -> None:
    lists = {
        "pending": JobState.READY,
        "active": JobState.RUNNING,
        "dirty": JobState.LOST,
        "failed": JobState.FAILED,
        "future": JobState.SCHEDULED,
    }
    for state in lists.values():
        assert states[state].id in ids_in(state)
    (running,) = find_page(JobSearch(state=JobState.RUNNING)).rows
    assert running.worker == "worker of the running one"
    (lost,) = find_page(JobSearch(state=JobState.LOST)).rows
    assert (lost.error_class, lost.worker) == ("steady_queue.processes.ProcessPrunedError", "lost worker")
