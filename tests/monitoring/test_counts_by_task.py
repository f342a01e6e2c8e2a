"""How many tasks of a list are calls of each function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue.monitoring.jobs.counts_by_task import LOOKED_UP, CountsByTask, count_tasks
from steady_queue.monitoring.jobs.listings import build_listing
from steady_queue.monitoring.jobs.search import JobSearch
from steady_queue.monitoring.states import JobState
from tests.support.store.jobs import PATH, fail_jobs, job, later
from tests.support.store.states import fail_lost

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob
    from tests.support.store.stores import SyncStore

SEND, PACK = "shop.tasks.send", "shop.tasks.pack"


def found(search: JobSearch, limit: int = LOOKED_UP) -> dict[str, str]:
    """The counts as they are shown, in their order."""
    return {path: str(size) for path, size in counted(search, limit).tasks}


def counted(search: JobSearch, limit: int = LOOKED_UP) -> CountsByTask:
    counts = count_tasks(search, build_listing(search), limit)
    assert counts is not None
    return counts


def test_the_tasks_of_each_state_are_counted_by_their_paths(store: SyncStore, states: dict[JobState, NewJob]) -> None:
    for state in JobState:
        paths = {states[state].task_path: 1}
        if state in (JobState.FAILED, JobState.SCHEDULED):  # with the lost one, and with the one that is late
            paths[PATH] = 2
        assert found(JobSearch(state=state)) == {path: str(number) for path, number in paths.items()}, state


def test_the_most_frequent_task_is_the_first_and_filters_are_applied(store: SyncStore) -> None:
    fail_jobs(store, *(job(task_path=SEND, queue_name="mail") for _ in range(3)), job(task_path=SEND))
    fail_jobs(store, *(job(task_path=PACK) for _ in range(2)))
    fail_lost(store, job(task_path=PACK))
    assert list(found(JobSearch(state=JobState.FAILED)).items()) == [(SEND, "4"), (PACK, "3")]
    assert found(JobSearch(state=JobState.FAILED, queue="default")) == {PACK: "3", SEND: "1"}
    assert found(JobSearch(state=JobState.FAILED, error="ValueError")) == {SEND: "4", PACK: "2"}
    assert found(JobSearch(state=JobState.LOST)) == {PACK: "1"}
    assert found(JobSearch(state=JobState.FAILED, before=later(hours=-1))) == {}


def test_of_a_longer_list_the_first_rows_are_counted_and_there_may_be_more(store: SyncStore) -> None:
    store.enqueue(*(job(task_path=SEND) for _ in range(3)), job(task_path=PACK), job(task_path="shop.tasks.last"))
    search = JobSearch(state=JobState.READY)
    assert counted(search, 4).is_capped
    assert found(search, 4) == {SEND: "3+", PACK: "1+"}
    assert not counted(search, 5).is_capped
    assert found(search, 5) == {SEND: "3", PACK: "1", "shop.tasks.last": "1"}


def test_one_query_counts_the_tasks_of_one_section(database: str, store: SyncStore) -> None:
    fail_jobs(store, job())
    store.enqueue(job())
    sections = {JobState.FAILED: 2, JobState.LATE: 2}
    for state in JobState:
        search = JobSearch(state=state)
        listing = build_listing(search)
        with CaptureQueriesContext(connections[database]) as queries:
            count_tasks(search, listing)
        assert len(queries) == sections.get(state, 1), state


def test_lists_of_all_states_and_of_a_text_in_the_arguments_are_not_counted(store: SyncStore) -> None:
    for search in (JobSearch(), JobSearch(state=JobState.READY, text="ada")):
        assert count_tasks(search, build_listing(search)) is None
