"""What a process counts: attempts by queue, task and minute, with times that the test sets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.test import override_settings

from steady_queue.aio.worker.reporting import task_counts
from steady_queue.aio.worker.reporting.task_counts import TaskCounts
from steady_queue.aio.worker.running import Running
from steady_queue.errors import UnknownTaskError
from steady_queue.store.job import Claim
from steady_queue.store.outcome import (
    Completed,
    Failed,
    Released,
    Retried,
    Settlement,
    Snoozed,
    Verdict,
    report,
)

if TYPE_CHECKING:
    from steady_queue.store.operations.maintenance.statistics import TaskSums
    from steady_queue.store.outcome import Ending

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
#: The monotonic time of START.
AT = 5_000.0


def claimed(at: float, *, waited: float, **columns: Any) -> Claim:
    moment = START + timedelta(seconds=at)
    plain: dict[str, Any] = dict.fromkeys(Claim._fields)
    given = {"claim_id": uuid4(), "claimed_at": moment, "enqueued_at": moment - timedelta(seconds=waited)}
    return Claim(**{**plain, **given, **columns})


class CountedTasks:
    """Tasks that a test starts and ends at times that it sets, in seconds after START, and their counts."""

    def __init__(self) -> None:
        #: When each began.
        self.running: dict[Running, float] = {}
        self.counts = TaskCounts(lambda: self.running)
        self.counts.set_time(START, AT)

    def start(
        self, at: float, *, waited: float = 0.0, path: str = "task", queue: str = "queue", backend: str = "default"
    ) -> Running:
        self.counts.change_minute(AT + at)
        claim = claimed(at, waited=waited, task_path=path, queue_name=queue, backend=backend)
        ((times, _),) = self.counts.runs_of([claim])
        running = Running(claim, times)
        running.has_begun = True
        self.running[running] = at
        return running

    def end(self, running: Running, at: float, outcome: Ending | None = None) -> None:
        self.counts.change_minute(AT + at)
        seconds = at - self.running.pop(running)
        if outcome is None:
            running.times.append(seconds)
        else:
            self.counts.add(outcome, seconds)

    def rows(self, at: float) -> list[tuple[int, int, int, int, int]]:
        """The minute, and the attempts that were started, finished, failed and retried in it."""
        rows = self.counts.collect(AT + at)
        return [(round((row.starts_at - START).total_seconds() / 60), *row[3:7]) for row in rows]

    def write(self, at: float) -> list[TaskSums]:
        rows = self.counts.collect(AT + at)
        self.counts.confirm(rows)
        return rows


@pytest.fixture
def tasks() -> CountedTasks:
    return CountedTasks()


def test_attempts_are_counted_by_queue_task_and_outcome(tasks: CountedTasks) -> None:
    error = report(ValueError, "it failed")
    tasks.start(1)  # runs on
    for _ in range(2):
        tasks.end(tasks.start(2, path="first", queue="mail"), 3)
    retried, failed = (tasks.start(2, path="first", queue="mail") for _ in range(2))
    tasks.end(retried, 3, Retried(retried.claim, error, 1.0))
    tasks.end(failed, 3, Failed(failed.claim, error))
    failed, snoozed, released = (tasks.start(2, path="second") for _ in range(3))
    tasks.end(failed, 3, Failed(failed.claim, error))
    tasks.end(snoozed, 3, Snoozed(snoozed.claim, 1.0))
    tasks.end(released, 3, Released(released.claim))
    rows = {(row.queue_name, row.task_path): row[3:7] for row in tasks.write(4)}
    assert rows == {
        ("queue", "task"): (1, 0, 0, 0),
        ("mail", "first"): (4, 2, 1, 1),
        ("queue", "second"): (3, 0, 1, 0),
    }


def test_times_of_attempts_that_ended_are_added_up_and_the_longest_is_kept(tasks: CountedTasks) -> None:
    tasks.end(tasks.start(1), 1.5)
    tasks.end(tasks.start(2), 4)
    failed = tasks.start(3)
    tasks.end(failed, 3.25, Failed(failed.claim, report(ValueError, "it failed")))
    tasks.counts.sum_up()
    tasks.end(tasks.start(3), 3.25)
    released = tasks.start(5)
    tasks.end(released, 55, Released(released.claim))
    (row,) = tasks.write(56)
    assert (row.run_milliseconds, row.longest_run_milliseconds) == (3000, 2000)


def test_waits_are_those_of_tasks_that_are_claimed_for_their_first_attempt(tasks: CountedTasks) -> None:
    tasks.start(1, waited=10.0)
    tasks.start(2, waited=1.5)
    tasks.start(3, waited=-5.0)  # enqueued by a clock that is ahead
    again = claimed(4, waited=60.0, task_path="task", queue_name="queue", attempts=1)
    scheduled_at = START + timedelta(seconds=4.5)
    planned = claimed(5, waited=60.0, task_path="task", queue_name="queue", attempts=0, scheduled_at=scheduled_at)
    assert [list(run) for _, run in tasks.counts.runs_of([again, planned])] == [[again, planned]]
    (row,) = tasks.write(6)
    assert (row.waits, row.wait_milliseconds, row.longest_wait_milliseconds) == (4, 12_000, 10_000)


@pytest.mark.parametrize("number", [0, 1, 63, 64, 65, 500, 1000])
def test_of_very_many_claims_some_stand_for_those_that_follow(tasks: CountedTasks, number: int) -> None:
    claims = [claimed(1, waited=number - place, task_path="task", queue_name="queue") for place in range(number)]
    assert [list(run) for _, run in tasks.counts.runs_of(claims)] == ([claims] if claims else [])
    rows = tasks.write(2)
    assert sum(row.waits for row in rows) == number
    for row in rows:
        assert row.longest_wait_milliseconds == number * 1000
        exact = sum(range(1, number + 1)) * 1000
        assert exact <= row.wait_milliseconds <= exact * 1.05


def test_waits_of_many_claims_are_counted_for_their_own_queue_and_task(tasks: CountedTasks) -> None:
    claims = [
        claimed(1, waited=place, task_path=f"task {place % 3}", queue_name=f"queue {place % 2}") for place in range(600)
    ]
    runs = list(tasks.counts.runs_of(claims))
    assert [claim for _, run in runs for claim in run] == claims
    assert all(times is tasks.counts.times_of((run[0].queue_name, run[0].task_path)) for times, run in runs)
    assert {row[1:3]: (row.waits, row.longest_wait_milliseconds) for row in tasks.write(2)} == {
        (f"queue {place % 2}", f"task {place % 3}"): (100, (594 + place) * 1000) for place in range(6)
    }


def test_the_lists_of_tasks_of_which_nothing_runs_are_forgotten_with_their_minute(tasks: CountedTasks) -> None:
    tasks.end(tasks.start(1, queue="short-lived"), 2)
    running = tasks.start(3, queue="lasting")
    tasks.counts.change_minute(AT + 61)
    assert list(tasks.counts._times) == [("lasting", "task")]
    tasks.end(running, 62)
    tasks.end(tasks.start(63, queue="short-lived"), 64)
    assert sorted((row.queue_name, *row[3:5]) for row in tasks.write(65)) == [
        ("lasting", 0, 1),
        ("lasting", 1, 0),
        ("short-lived", 1, 1),
        ("short-lived", 1, 1),
    ]


def test_a_task_that_was_settled_in_its_own_transaction_has_finished_unless_it_was_rolled_back(
    tasks: CountedTasks,
) -> None:
    for verdict in (Verdict.APPLIED, Verdict.FENCED):
        running = tasks.start(1)
        tasks.end(running, 2, Completed(running.claim, Settlement({running.claim.claim_id: verdict})))
    assert tasks.rows(3) == [(0, 2, 1, 0, 0)]


def test_an_unknown_task_that_is_left_to_newer_code_has_not_failed(tasks: CountedTasks) -> None:
    backend = "steady_queue.backend.SteadyQueueBackend"
    backends = {
        "default": {"BACKEND": backend, "OPTIONS": {"on_unknown_task": "release"}},
        "other": {"BACKEND": backend},
    }
    with override_settings(TASKS=backends):
        for alias in backends:
            running = tasks.start(1, backend=alias)
            tasks.end(running, 2, Failed(running.claim, report(UnknownTaskError, "it is not known")))
    assert tasks.rows(3) == [(0, 2, 0, 1, 0)]


def test_an_attempt_counts_in_the_minutes_in_which_it_began_and_ended(tasks: CountedTasks) -> None:
    long, short = tasks.start(10), tasks.start(20)
    tasks.end(short, 59.9)
    tasks.start(65)
    tasks.end(long, 70)
    assert tasks.rows(70) == [(0, 2, 1, 0, 0), (1, 1, 1, 0, 0)]
    last = tasks.start(150)
    tasks.end(last, 250)
    assert tasks.rows(260) == [(0, 2, 1, 0, 0), (1, 1, 1, 0, 0), (2, 1, 0, 0, 0), (4, 0, 1, 0, 0)]


def test_only_what_has_changed_since_it_was_written_is_written(tasks: CountedTasks) -> None:
    assert tasks.write(0) == []
    first = tasks.start(1)
    assert [row.started for row in tasks.write(2)] == [1]
    assert tasks.write(3) == []
    tasks.end(first, 4)
    assert [(row.started, row.finished) for row in tasks.write(5)] == [(1, 1)]
    assert tasks.write(6) == []
    assert tasks.write(600) == []
    assert tasks.counts._ended == []


def test_what_is_counted_while_rows_are_written_is_written_next(tasks: CountedTasks) -> None:
    tasks.end(tasks.start(1), 2)
    rows = tasks.counts.collect(AT + 3)
    tasks.end(tasks.start(3), 59)
    tasks.end(tasks.start(61), 62)  # the minute has changed
    tasks.counts.confirm(rows)
    assert tasks.rows(63) == [(0, 2, 2, 0, 0), (1, 1, 1, 0, 0)]


def test_minutes_that_cannot_be_written_are_kept_for_an_hour(
    tasks: CountedTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minute in range(100):
        tasks.end(tasks.start(60 * minute), 60 * minute + 1)
    assert [row[0] for row in tasks.rows(60 * 99 + 2)] == list(range(39, 100))
    monkeypatch.setattr(task_counts, "MAX_ROWS", 10)
    assert [row[0] for row in tasks.rows(60 * 100)] == list(range(90, 100))
    # The machine slept for a year.
    assert tasks.rows(365 * 86_400) == []


def test_minutes_are_those_of_the_database_and_none_begins_again(tasks: CountedTasks) -> None:
    tasks.end(tasks.start(1), 2)
    tasks.counts.set_time(START + timedelta(seconds=90), AT + 10)  # its clock was set forward
    tasks.end(tasks.start(11), 12)
    tasks.counts.set_time(START + timedelta(seconds=12), AT + 12)  # and back
    tasks.end(tasks.start(13), 20)
    assert tasks.rows(50) == [(0, 1, 1, 0, 0), (1, 2, 2, 0, 0)]
    assert tasks.rows(130) == [(0, 1, 1, 0, 0), (1, 2, 2, 0, 0)]
    tasks.end(tasks.start(131), 132)
    assert tasks.rows(133)[2:] == [(2, 1, 1, 0, 0)]


def test_what_was_counted_before_the_time_of_the_database_was_known_belongs_to_the_first_minute() -> None:
    tasks = CountedTasks()
    tasks.counts = TaskCounts(lambda: tasks.running)
    tasks.end(tasks.start(1), 2)
    assert tasks.rows(3) == []
    tasks.counts.set_time(START + timedelta(seconds=4), AT + 4)
    assert tasks.rows(5) == [(0, 1, 1, 0, 0)]
