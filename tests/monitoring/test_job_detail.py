"""The page of one task: its life, its arguments, and what can be done with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue import actions
from steady_queue.models import Job, RecurringExecution
from steady_queue.monitoring.jobs.detail import find_detail
from steady_queue.monitoring.jobs.timeline import MAX_SHOWN_ATTEMPTS
from steady_queue.monitoring.states import JobState
from steady_queue.store.job import FailureKind
from steady_queue.store.outcome import Finished
from tests.shop import tasks
from tests.support.store.jobs import fail_jobs, failed, job, retried
from tests.support.store.states import with_arguments

if TYPE_CHECKING:
    from steady_queue.monitoring.jobs.detail import JobDetail
    from steady_queue.store.job import NewJob
    from tests.support.store.stores import SyncStore

ACTIONS = {
    "retry": {"failed", "exhausted", "lost", "cancelled", "expired"},
    "run_now": {"scheduled", "retrying", "blocked", "late"},
    "cancel": {"scheduled", "retrying", "blocked", "late", "ready", "running"},
    "discard": {"failed", "exhausted", "lost", "cancelled", "expired"}
    | {"scheduled", "retrying", "blocked", "late", "ready"},
    "stack": {"running"},
}


def detail_of(new: NewJob) -> JobDetail:
    found = find_detail(new.id)
    assert found is not None
    return found


def kinds(detail: JobDetail) -> list[str]:
    return [entry.kind if entry.attempt is None else entry.attempt.ending for entry in detail.timeline]


def test_the_page_of_each_state_has_its_life_and_actions_in_at_most_ten_queries(
    store: SyncStore, states: dict[JobState, NewJob]
) -> None:
    lives = {
        JobState.FAILED: ["enqueued", "failed"],
        JobState.EXHAUSTED: ["enqueued", "failed"],
        JobState.LOST: ["enqueued", "lost"],
        JobState.RUNNING: ["enqueued", "running"],
        JobState.READY: ["enqueued"],
        JobState.LATE: ["enqueued", "scheduled"],
        JobState.SCHEDULED: ["enqueued", "scheduled"],
        JobState.RETRYING: ["enqueued", "failed", "next"],
        JobState.BLOCKED: ["enqueued"],
        JobState.FINISHED: ["enqueued", "finished"],
        JobState.CANCELLED: ["enqueued", "cancelled"],
        JobState.EXPIRED: ["enqueued", "expired"],
    }
    for state, new in states.items():
        with CaptureQueriesContext(connections[store.alias]) as queries:
            detail = detail_of(new)
        assert len(queries) <= 10
        assert kinds(detail) == lives[state]
        assert set(detail.actions) - {"edit"} == {name for name, its in ACTIONS.items() if state in its}
        waits = state in ("ready", "late", "scheduled", "retrying", "blocked")
        assert bool(detail.waiting) is waits


@pytest.mark.usually_on("sqlite")
def test_who_cancelled_a_task_and_why_is_part_of_its_life(store: SyncStore, states: dict[JobState, NewJob]) -> None:
    cancelled = detail_of(states[JobState.CANCELLED])
    assert cancelled.timeline[-1].text == "Cancelled by Ada: too late"
    assert cancelled.timeline[-1].at == cancelled.ended_at
    running = states[JobState.RUNNING]
    actions.cancel(running.id, by="Grace", reason="wrong file")
    detail = detail_of(running)
    assert detail.cancel_request is not None
    assert (detail.cancel_request.by, detail.cancel_request.reason) == ("Grace", "wrong file")
    assert detail.timeline[-1].text == "Asked to stop by Grace: wrong file"


def test_each_attempt_has_its_worker_times_error_and_log_lines(store: SyncStore) -> None:
    new = job(arguments=with_arguments())
    (claim,) = store.claimed(new, process_id=store.worker("first"))
    store.settle(retried(claim, "no connection", delay_seconds=0), process_name="first")
    actions.run_now(new.id)
    (claim,) = store.claim(store.worker("second"))
    lines = [
        {"at": claim.claimed_at.isoformat(), "attempt": attempt, "message": f"line of {attempt}"} for attempt in (1, 2)
    ]
    Job.objects.using(store.alias).update(log="\n".join(map(json.dumps, lines)))
    running = detail_of(new)
    assert kinds(running) == ["enqueued", "failed", "running"]
    store.settle(Finished(claim, '{"total": 3, "api_token": "xyz"}'), process_name="second")
    detail = detail_of(new)
    assert kinds(detail) == ["enqueued", "failed", "finished"]
    first, second = (entry.attempt for entry in detail.timeline[1:])
    assert first is not None
    assert second is not None
    assert (first.number, first.worker, first.error_class, first.message) == (
        *(1, "first"),
        *("builtins.ValueError", "no connection"),
    )
    assert first.traceback.endswith("ValueError: no connection")
    assert (second.number, second.worker, second.error_class) == (2, "second", "")
    assert [[line.message for line in one.log] for one in (first, second)] == [["line of 1"], ["line of 2"]]
    for one in (first, second):
        assert one.started_at is not None
        assert one.duration_seconds is not None
        assert one.duration_seconds >= 0
    assert json.loads(detail.result or "") == {"total": 3, "api_token": "[redacted]"}


@pytest.mark.usually_on("sqlite")
def test_a_retry_by_hand_is_shown_after_the_attempt_that_it_followed(store: SyncStore) -> None:
    result = tasks.greet.enqueue("Ada")
    for _ in range(2):
        (claim,) = store.claim(store.worker())
        store.settle(failed(claim))
        actions.retry(result.id)
    detail = find_detail(result.id)
    assert detail is not None
    assert kinds(detail) == ["enqueued", "failed", "failed", "retried by hand"]
    (claim,) = store.claim(store.worker())
    store.settle(failed(claim, kind=FailureKind.EXHAUSTED))
    actions.retry(result.id, arguments=tasks.greet.bind("Grace"))
    detail = find_detail(result.id)
    assert detail is not None
    assert kinds(detail) == ["enqueued", "failed", "failed", "failed", "arguments replaced"]
    (old,) = detail.old_arguments
    assert [one.text for one in old.arguments.values] == ['"Ada"']
    assert [one.text for one in detail.arguments.values] == ['"Grace"']


@pytest.mark.usually_on("sqlite")
def test_old_arguments_that_cannot_be_read_are_not_shown(store: SyncStore) -> None:
    new = job(task_path="tests.shop.tasks.greet", arguments='[2,[],{"password":"hunter2"}]')
    fail_jobs(store, new)
    actions.retry(new.id, arguments=tasks.greet.bind("Grace"))
    detail = find_detail(new.id)
    assert detail is not None
    assert "hunter2" not in repr(detail)
    (old,) = detail.old_arguments
    assert old.arguments.problem


@pytest.mark.usually_on("sqlite")
def test_attempts_that_are_no_longer_stored_are_counted(store: SyncStore) -> None:
    new = job()
    fail_jobs(store, new)
    stored = Job.objects.using(store.alias)
    error = json.loads(stored.get().errors or "")
    errors = [{**error, "attempt": 1_000_000 + number} for number in range(MAX_SHOWN_ATTEMPTS + 5)]
    stored.update(errors="\n".join(map(json.dumps, errors)), attempts=1_000_000 + len(errors), retries=1_000_000 + 54)
    detail = detail_of(new)
    assert detail.timeline[1].text == "Attempts 1 to 1,000,004 are no longer recorded"
    assert len(detail.timeline) == 2 + MAX_SHOWN_ATTEMPTS


@pytest.mark.usually_on("sqlite")
def test_the_recurring_task_of_a_tick_is_named(store: SyncStore) -> None:
    new, now = job(), datetime.now(UTC)
    store.enqueue(new)
    RecurringExecution.objects.using(store.alias).create(
        job_id=new.id, task_key="nightly", run_at=now - timedelta(seconds=1), created_at=now
    )
    assert detail_of(new).recurring_key == "nightly"


@pytest.mark.usually_on("sqlite")
def test_an_unknown_id_is_none(database: str) -> None:
    assert find_detail(uuid4()) is None
    for text in ("", "no id", "x' OR 1=1--", "\x00", "\ud800"):
        assert find_detail(text) is None


HOSTILE: dict[str, Any] = {
    "arguments": ["", "{", "[]", "[9]", "\u202e<script>alert(1)</script>", "[" * 100_000, '[1,[{"$":"?"}],{}]'],
    "errors": ["", "{}", "null\n[1]\n{", '{"attempt": "x", "message": 1}', "[" * 100_000],
    "log": ["null", "[]", '{"message": 1}', "x" * 65_000],
    "old_arguments": ["null", "{}", "x", '{"replaced_at": "yesterday", "arguments": "x"}'],
    "return_value": ["{", "NaN", "[" * 100_000, '"' + "x" * 100_000],
    "progress": ["null", "[]", '{"done": "x"}', '{"done": 1e400}'],
    "metadata": ["null", "{", '{"password": "x"}'],
}


@pytest.mark.usually_on("sqlite")
def test_columns_that_another_program_has_written_are_shown_as_far_as_possible(store: SyncStore) -> None:
    new = job()
    fail_jobs(store, new)
    rows = Job.objects.using(store.alias)
    for column, texts in HOSTILE.items():
        before = getattr(rows.get(), column)
        for text in texts:
            rows.update(**{column: text})
            detail = detail_of(new)
            assert detail.row.state is JobState.FAILED
            assert detail.timeline
        rows.update(**{column: before})
    assert json.loads(detail_of(new).metadata or "null") is None
