"""Lists of tasks: every task is in the list of its state, on pages that are complete and have no task twice."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue.models import ClaimedExecution, FailedExecution, Job
from steady_queue.monitoring.jobs import pages as job_pages
from steady_queue.monitoring.jobs.pages import find_ids, find_matches, find_page, iterate_ids
from steady_queue.monitoring.jobs.search import JobSearch
from steady_queue.monitoring.state_counts import read_state_counts
from steady_queue.monitoring.states import JobState
from steady_queue.store.operations.actions.job_actions import discard, retry
from steady_queue.store.outcome import Finished, Released
from tests.support.store.jobs import PATH, fail_jobs, job, later, limited
from tests.support.store.states import old_job, with_arguments

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.store.job import NewJob
    from tests.support.store.stores import SyncStore

Jobs = dict[JobState, "NewJob"]


def ids_in(state: JobState | None, **filters: object) -> list[UUID]:
    """The ids on the first page."""
    return [row.id for row in find_page(JobSearch(state=state, **filters)).rows]  # type: ignore[arg-type]


def test_each_task_is_in_the_list_of_its_state_and_in_no_other(store: SyncStore, states: Jobs) -> None:
    expected = {state: [new.id] for state, new in states.items()}
    # A lost task has failed, and one that is late is scheduled as well.
    expected[JobState.FAILED].insert(0, states[JobState.LOST].id)
    expected[JobState.SCHEDULED].insert(0, states[JobState.LATE].id)
    assert {state: ids_in(state) for state in JobState} == expected
    assert {state: find_matches(JobSearch(state=state)).total.number for state in JobState} == {
        state: len(ids) for state, ids in expected.items()
    }
    for state, new in states.items():
        (row,) = [row for row in find_page(JobSearch(state=state)).rows if row.id == new.id]
        assert row.state is (JobState.SCHEDULED if state is JobState.LATE else state)
        assert row.is_late is (state is JobState.LATE)
        assert row.at is not None
    assert sorted(ids_in(None)) == sorted(new.id for new in states.values())
    assert ids_in(None)[-1] == states[JobState.LATE].id  # it was enqueued an hour ago


def test_t6_and_t8_pending_active_dirty_failed_and_future_tasks_have_lists(store: SyncStore, states: Jobs) -> None:
    """T6 of django-taskq: a task that runs is active while its process lives, and dirty after that. T8: its lists."""
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


def walk(search: JobSearch, size: int) -> list[UUID]:
    """The ids of all pages, forwards; backwards they must be the same pages."""
    pages = [find_page(search, size=size)]
    while pages[-1].next_cursor is not None:
        pages.append(find_page(search, after=pages[-1].next_cursor, size=size))
    back = [pages[-1]]
    while back[-1].previous_cursor is not None:
        back.append(find_page(search, before=back[-1].previous_cursor, size=size))
    forwards = [row.id for page in pages for row in page.rows]
    assert [row.id for page in reversed(back) for row in page.rows] == forwards
    assert all(page.is_complete for page in (*pages, *back))
    return forwards


def test_pages_are_complete_and_disjoint_in_both_directions(store: SyncStore) -> None:
    failed = [job() for _ in range(7)]
    fail_jobs(store, *failed)  # all at the same time, but for PostgreSQL
    done = [job() for _ in range(7)]
    store.settle(*map(Finished, store.claimed(*done)))
    running = [job() for _ in range(5)]
    store.claimed(*running)
    at = later()
    scheduled = [job(scheduled_at=at, priority=number % 3) for number in range(7)]
    ready = [job(priority=number % 3, queue_name=("mail", "other")[number % 2]) for number in range(12)]
    holder, *blocked = [limited(priority=number % 2) for number in range(6)]
    store.enqueue(*scheduled, *ready, holder)
    store.enqueue(*blocked)

    def ids(jobs: list[NewJob], order: Callable[[NewJob], Any] = lambda new: new.id) -> list[UUID]:
        return [new.id for new in sorted(jobs, key=order)]

    by_priority = lambda new: (-new.priority, new.id)  # noqa: E731
    newest = list(reversed(ids([*failed, *done, *running, *scheduled, *ready, holder, *blocked])))
    for size in (2, 50):
        assert sorted(walk(JobSearch(state=JobState.FAILED), size)) == ids(failed)
        assert sorted(walk(JobSearch(state=JobState.FINISHED), size)) == ids(done)
        assert sorted(walk(JobSearch(state=JobState.RUNNING), size)) == ids(running)
        assert walk(JobSearch(state=JobState.SCHEDULED), size) == ids(scheduled, by_priority)
        assert walk(JobSearch(state=JobState.READY), size) == ids([*ready, holder])
        assert walk(JobSearch(state=JobState.READY, queue="mail"), size) == ids(ready[::2], by_priority)
        assert walk(JobSearch(state=JobState.BLOCKED), size) == ids(blocked)
        assert walk(JobSearch(state=JobState.BLOCKED, key="key"), size) == ids(blocked, by_priority)
        assert walk(JobSearch(), size) == newest


def test_rows_that_leave_a_list_or_enter_it_between_two_pages_move_no_other_row(store: SyncStore) -> None:
    jobs = [job() for _ in range(9)]
    for new in jobs:
        fail_jobs(store, new)
    newest_first = [new.id for new in reversed(jobs)]
    search = JobSearch(state=JobState.FAILED)
    first = find_page(search, size=3)
    assert [row.id for row in first.rows] == newest_first[:3]
    fail_jobs(store, late := job())
    store.run(discard(store.sql, [newest_first[2], newest_first[4]]))  # the last of the page, and one of the next
    second = find_page(search, after=first.next_cursor, size=3)
    assert [row.id for row in second.rows] == [newest_first[3], newest_first[5], newest_first[6]]
    back = find_page(search, before=second.previous_cursor, size=3)
    assert [row.id for row in back.rows] == [late.id, *newest_first[:2]]
    assert back.previous_cursor is None


def test_filters_find_the_tasks_that_match_in_every_list(store: SyncStore, states: Jobs) -> None:
    moment = datetime.now(UTC)
    tasks = {new.id: state for state, new in states.items()}
    Job.objects.using(store.alias).filter(
        id__in=[states[state].id for state in (JobState.FAILED, JobState.READY)]
    ).update(task_path="shop.tasks.send_mail")

    def found(state: JobState | None, **filters: Any) -> set[JobState]:
        return {tasks[id_] for id_ in ids_in(state, **filters)}

    everything = set(JobState)
    mail = {JobState.READY, JobState.LATE}
    assert found(None, queue="mail") == mail
    assert found(JobState.READY, queue="mail") == {JobState.READY}
    assert found(JobState.LATE, queue="mail") == {JobState.LATE}
    assert found(JobState.LATE, queue="other") == set()
    assert (
        found(None, task="shop.tasks.send_mail") == {JobState.FAILED, JobState.READY} == found(None, task="send_mail")
    )
    assert found(JobState.FAILED, task="send_mail") == {JobState.FAILED}
    assert found(JobState.FAILED, error="ProcessPrunedError") == {JobState.LOST}
    assert found(JobState.FAILED, error="builtins.ValueError") == {JobState.FAILED}
    assert found(JobState.RETRYING, error="ValueError") == {JobState.RETRYING}
    assert found(JobState.RETRYING, error="KeyError") == set()
    assert found(JobState.BLOCKED, key="key") == {JobState.BLOCKED}
    assert found(JobState.RUNNING, key="key") == {JobState.RUNNING}
    assert found(JobState.RUNNING, key="other") == set()
    assert found(JobState.RUNNING, worker="worker of the running one") == {JobState.RUNNING}
    (process_id,) = ClaimedExecution.objects.using(store.alias).values_list("process_id", flat=True)
    assert found(JobState.RUNNING, worker=str(process_id)) == {JobState.RUNNING}
    assert found(JobState.RUNNING, worker="worker") == set()
    assert found(JobState.FAILED, worker="lost worker") == {JobState.LOST}
    assert found(JobState.FAILED, worker="lost") == found(JobState.FAILED, worker="worker of") == set()
    for text in ("w-1\nw-2\nw-3", "w-11\nw-2", "w-2\nw-33"):
        Job.objects.using(store.alias).filter(id=states[JobState.FINISHED].id).update(worker_ids=text)
        lines = text.split("\n")
        names = ("w-1", "w-2", "w-3", "w-11", "w-33", "w", "w-_")
        assert [name for name in names if found(JobState.FINISHED, worker=name)] == [n for n in names if n in lines]
    for state, new in states.items():
        assert found(state, id=new.id.hex) == {state} == found(None, id=new.id.hex[:20])
    hour_ago, later_on = moment - timedelta(minutes=30), moment + timedelta(minutes=30)
    assert found(None, since=hour_ago) == everything - {JobState.LATE}
    assert found(None, before=hour_ago) == {JobState.LATE}
    for state in (JobState.FAILED, JobState.FINISHED, JobState.RUNNING, JobState.BLOCKED, JobState.READY):
        assert state in found(state, since=hour_ago, before=later_on)
        assert found(state, before=hour_ago) == found(state, since=later_on) == set()
    assert found(JobState.SCHEDULED, since=later_on) == {JobState.SCHEDULED}
    assert found(JobState.READY, queue="mail", since=hour_ago) == {JobState.READY}
    assert found(JobState.READY, queue="mail", before=hour_ago) == set()


def test_a_failure_of_a_kind_that_only_a_newer_version_has_is_listed_and_counted_as_failed(store: SyncStore) -> None:
    known, unknown = job(), job()
    fail_jobs(store, known, unknown)
    FailedExecution.objects.using(store.alias).filter(job_id=unknown.id).update(kind=9)
    assert ids_in(JobState.FAILED) == [known.id, unknown.id] == walk(JobSearch(state=JobState.FAILED), 1)
    assert [row.state for row in find_page(JobSearch()).rows] == [JobState.FAILED] * 2
    counted = read_state_counts(failed_after=datetime.now(UTC) - timedelta(hours=1))
    assert {state: count.number for state, count in counted.states.items() if count.number} == {JobState.FAILED: 2}
    assert counted.failed_since[JobState.FAILED].number == 2
    for state in set(JobState) - {JobState.FAILED}:
        assert ids_in(state) == []


def test_text_in_the_arguments_is_found_unless_it_is_redacted(store: SyncStore) -> None:
    jobs = [
        job(arguments=with_arguments("Grüße an Ada", {"password": "hunter2"}), task_path="tests.shop.tasks.anything"),
        job(arguments=with_arguments(to="ADA@example.com", api_token="hunter2", body="x" * 100_000)),
        job(arguments=with_arguments(to="100% \\ \"quoted\" 'text' _x")),
        job(arguments=with_arguments("hunter2"), task_path="no.such.task"),
    ]
    store.enqueue(*jobs)

    def found(text: str) -> list[int]:
        ids = [new.id for new in jobs]
        return [ids.index(id_) for id_ in ids_in(JobState.READY, text=text)]

    assert found("ada") == [0, 1]
    assert found("grüße") == [0]
    assert found("hunter") == []
    assert found("100%") == found("\\ \"quoted\" 'text'") == found("_x") == [2]
    assert found("%") == [2]
    assert found("password") == [0]


def test_ready_tasks_are_late_a_minute_after_they_were_due(store: SyncStore) -> None:
    minutes = timedelta(minutes=1)
    again, recent = old_job(), old_job()
    store.settle(*map(Released, store.claimed(again)))
    assert [row.is_late for row in find_page(JobSearch(state=JobState.READY)).rows] == [True]
    store.run(discard(store.sql, [again.id]))
    fail_jobs(store, recent)
    store.run(retry(store.sql, [recent.id]))
    late = [old_job(), old_job(scheduled_at=datetime.now(UTC) - 5 * minutes)]
    punctual = [old_job(scheduled_at=datetime.now(UTC) - minutes / 4), job()]
    store.enqueue(*late, *punctual)
    assert ids_in(JobState.LATE) == [new.id for new in late]
    assert [row.is_late for row in find_page(JobSearch(state=JobState.READY)).rows].count(True) == 2


def test_a_filter_without_an_index_searches_windows_and_continues(
    store: SyncStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_pages, "WINDOW_ROWS", 10)
    monkeypatch.setattr(job_pages, "PAGE_WINDOW_ROWS", 10)
    monkeypatch.setattr(job_pages, "FIRST_ROWS", 4)
    jobs = [job(task_path="shop.tasks.rare" if number in (3, 17, 24) else PATH) for number in range(25)]
    store.enqueue(*jobs)
    search = JobSearch(state=JobState.READY, task="rare")
    pages = [find_page(search, size=2)]
    while pages[-1].next_cursor:
        pages.append(find_page(search, after=pages[-1].next_cursor, size=2))
    assert [[row.id for row in page.rows] for page in pages] == [[jobs[3].id], [jobs[17].id], [jobs[24].id]]
    assert [(page.searched, page.is_complete) for page in pages] == [(10, False), (10, False), (5, True)]
    assert find_matches(search).total == (1, True)
    assert list(iterate_ids(search, size=2)) == [[jobs[3].id], [jobs[17].id], [jobs[24].id]]


def test_a_list_makes_few_queries_however_it_is_filtered(store: SyncStore, states: Jobs) -> None:
    filters: dict[str, Any] = {"queue": "default", "task": "noop", "worker": "worker", "text": "x", "error": "KeyError"}
    for state in (None, *JobState):
        for search in (JobSearch(state=state), JobSearch(state=state, **filters)):
            cursor = find_page(search, size=1).next_cursor
            with CaptureQueriesContext(connections[store.alias]) as queries:
                find_page(search, after=cursor)
            assert len(queries) <= 10, (search, [query["sql"] for query in queries])


def test_tasks_that_enter_a_list_during_a_bulk_action_are_left_out(store: SyncStore) -> None:
    as_of = datetime.now(UTC) + timedelta(seconds=5)
    failed = [job() for _ in range(5)]
    fail_jobs(store, *failed)
    batches = iterate_ids(JobSearch(state=JobState.FAILED), as_of=as_of, size=2)
    seen = next(batches)
    fail_jobs(store, entered := job())
    rows = FailedExecution.objects.using(store.alias)
    rows.filter(job_id=entered.id).update(failed_at=as_of + timedelta(seconds=1))
    store.run(retry(store.sql, seen))
    assert sorted([*seen, *(id_ for batch in batches for id_ in batch)]) == [new.id for new in failed]

    ready = [old_job() for _ in range(3)]
    store.enqueue(*ready, old_job(-timedelta(minutes=1)))
    left = [new.id for new in (*ready, *failed) if store.status(new) == ["ready"]]
    search = JobSearch(state=JobState.READY)
    batch = find_ids(search, as_of=as_of, size=2)
    found = list(batch.ids)
    while batch.next_cursor is not None:
        batch = find_ids(search, after=batch.next_cursor, as_of=as_of, size=2)
        found += batch.ids
    assert found == left
    assert find_matches(search).total.number == len(left) + 1


def cursor_at(time: object) -> str:
    """A cursor of a list of failed tasks that was made by hand."""
    text = json.dumps([0, time, "019a0000-0000-7000-8000-000000000000"])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.usually_on("sqlite", "mariadb")
@pytest.mark.parametrize(
    "cursor",
    [
        *("", "x", "é", "W10", "WzFd", "WzAsMV0", "WzAsIngiLCJ5Il0", "Wy0xLDFd", "bnVsbA"),
        *map(cursor_at, ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "\0", 5)),
    ],
)
def test_a_cursor_that_is_none_of_the_list_begins_at_its_start(store: SyncStore, states: Jobs, cursor: str) -> None:
    for state in JobState:
        assert find_page(JobSearch(state=state), after=cursor) == find_page(JobSearch(state=state))
