"""The poll of the dispatcher: on PostgreSQL one statement that moves plain jobs and reads the next due time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from steady_queue.store.job import Lane
from steady_queue.store.operations import dispatch as dispatching
from steady_queue.store.operations.claim import ClaimRequest, claim_from_all
from steady_queue.store.operations.dispatch import ScheduledPoll, dispatch, poll_scheduled
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.notify import notify
from steady_queue.store.operations.settle import settle
from tests.support.store.jobs import failed, job, later, limited, retried
from tests.support.store.statements import statements
from tests.support.threads import held

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob
    from steady_queue.store.statement import Operation
    from tests.support.store.stores import Store

T = TypeVar("T")

ON_POSTGRES = pytest.mark.only_on("postgres")
#: BEGIN and COMMIT.
AROUND = 2


def make_due(store: Store, *jobs: NewJob) -> None:
    """Make the jobs due, each a second later than the one before."""
    for number, new in enumerate(jobs):
        text = "UPDATE steady_queue_scheduledexecution SET scheduled_at = ? WHERE job_id = ?"
        store.ask(text, later(hours=-1, seconds=number), new.id)


@ON_POSTGRES
def test_plain_due_jobs_are_moved_by_one_statement_the_earliest_first(store: Store) -> None:
    jobs = [job(scheduled_at=later(), priority=priority) for priority in (0, 5, 9)]
    future = job(scheduled_at=later())
    store.enqueue(*jobs, future)
    make_due(store, *jobs)
    poll, made = statements(store, poll_scheduled(store.sql, 2))
    assert len(made) == 1
    assert not poll_scheduled(store.sql, 2).transaction
    assert (poll.moved, poll.is_full, poll.is_due) == (2, True, True)
    assert store.status(*jobs, future) == ["ready", "ready", "scheduled", "scheduled"]
    poll = store.run(poll_scheduled(store.sql, 2))
    assert (poll.moved, poll.is_full, poll.is_due) == (1, False, False)
    assert poll.due_in_seconds is not None
    assert 3000 < poll.due_in_seconds < 4000
    assert [claim.job_id for claim in store.claim(store.worker(), 3)] == [jobs[2].id, jobs[1].id, jobs[0].id]


@ON_POSTGRES
def test_jobs_that_are_due_at_the_same_time_are_moved_by_priority(store: Store) -> None:
    jobs = [job(scheduled_at=later(), priority=priority) for priority in (-1, 3, 1)]
    store.enqueue(*jobs)
    store.ask("UPDATE steady_queue_scheduledexecution SET scheduled_at = ?", later(hours=-1))
    assert store.run(poll_scheduled(store.sql, 2)).moved == 2
    assert store.status(*jobs) == ["scheduled", "ready", "ready"]


@ON_POSTGRES
def test_limited_and_expired_jobs_are_left_for_the_dispatch_and_count_among_the_first(store: Store) -> None:
    plain, other = job(scheduled_at=later()), job(scheduled_at=later())
    expired, expiring = (job(scheduled_at=later(), expires_at=later()) for _ in range(2))
    special = limited(scheduled_at=later())
    store.enqueue(expired, special, plain, expiring, other)
    make_due(store, expired, special, plain, expiring, other)
    store.ask("UPDATE steady_queue_job SET expires_at = ? WHERE id = ?", later(hours=-1), expired.id)
    poll = store.run(poll_scheduled(store.sql, 4))
    assert (poll.moved, poll.is_full, poll.is_due) == (2, False, True)
    assert store.status(expired, special, plain, expiring, other) == [
        "scheduled",
        "scheduled",
        "ready",
        "ready",
        "scheduled",
    ]
    assert store.run(dispatch(store.sql, 4)).moved == 3
    assert store.status(expired, special, other) == ["failed", "ready", "ready"]


@ON_POSTGRES
def test_an_expired_job_that_has_been_started_is_moved(store: Store) -> None:
    new = job(expires_at=later())
    (claimed,) = store.claimed(new)
    store.settle(retried(claimed))
    make_due(store, new)
    store.ask("UPDATE steady_queue_job SET expires_at = ?", later(hours=-1))
    assert store.run(poll_scheduled(store.sql, 1)).moved == 1


@ON_POSTGRES
def test_a_due_job_that_another_dispatcher_has_locked_is_reported_and_the_others_are_moved(store: Store) -> None:
    locked, free = job(scheduled_at=later()), job(scheduled_at=later())
    store.enqueue(locked, free)
    make_due(store, locked, free)
    text = "SELECT 1 FROM steady_queue_scheduledexecution WHERE job_id = %s FOR UPDATE"
    with held(store.alias, (text, [locked.id])):
        poll = store.run(poll_scheduled(store.sql, 10))
    assert (poll.moved, poll.is_due) == (1, True)
    assert store.status(locked, free) == ["scheduled", "ready"]


def test_a_poll_moves_no_more_at_once_than_a_statement_takes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "JOBS_PER_STATEMENT", 2)
    store.enqueue(*[job(scheduled_at=later()) for _ in range(3)])
    store.ask("UPDATE steady_queue_scheduledexecution SET scheduled_at = ?", later(hours=-1))
    poll = store.run(poll_scheduled(store.sql, 100))
    assert (poll.moved, poll.is_full) == ((2, True) if store.sql.single_statements else (0, False))
    assert poll.is_due


def test_without_scheduled_jobs_there_is_no_due_time(store: Store) -> None:
    assert store.run(poll_scheduled(store.sql, 10)) == ScheduledPoll(0, None)


# -- what a retry costs -----------------------------------------------------------------------------------------------


def _run_attempts(store: Store, count: int, attempts: int) -> int:
    """Run a batch of tasks that fail, up to the last attempt; returns how many statements and commands that took."""
    made = 0

    def run(operation: Operation[T]) -> T:
        nonlocal made
        result, statements_made = statements(store, operation)
        made += len(statements_made) + (AROUND if operation.transaction else 0)
        return result

    process_id = store.worker()
    run(enqueue(store.sql, [job() for _ in range(count)]))
    for attempt in range(1, attempts + 1):
        run(notify(store.sql))
        claims = run(claim_from_all(store.sql, ClaimRequest(process_id, Lane.ASYNC, count))).claims
        assert len(claims) == count
        # The poll after a short pause, which finds nothing.
        assert not run(claim_from_all(store.sql, ClaimRequest(process_id, Lane.ASYNC, count))).claims
        outcomes = [retried(c, delay_seconds=0) if attempt < attempts else failed(c) for c in claims]
        run(settle(store.sql, outcomes, process_name="worker"))
        poll = run(poll_scheduled(store.sql, count))
        if attempt < attempts:
            if poll.is_due:
                poll = ScheduledPoll(run(dispatch(store.sql, count)).moved, None)
            assert poll.moved == count
    return made


@ON_POSTGRES
@pytest.mark.parametrize("count", [1, 20, 200])
@pytest.mark.parametrize("attempts", [3, 10])
def test_an_attempt_of_a_retrying_task_costs_at_most_one_and_a_half_times_that_of_a_failing_one(
    store: Store, count: int, attempts: int
) -> None:
    failing = _run_attempts(store, count, 1)
    assert _run_attempts(store, count, attempts) / attempts <= 1.5 * failing
