"""Races: actions against each other and against workers. Each task ends in one state, and no row is left over."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from steady_queue import actions
from steady_queue.actions import cleanup
from steady_queue.errors import JobIsRunning
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.store.operations.actions import bulk_actions
from steady_queue.store.operations.actions import job_actions as revision
from steady_queue.store.operations.actions.cleanup import CleanupPosition, EndedFilter, clear_failed
from steady_queue.store.outcome import ErrorReport, Failed, Finished
from steady_queue.store.statement import Operation
from tests.support.databases.open_transactions import OpenTransaction, run_with_short_lock_timeout
from tests.support.databases.tables import count, counts, query
from tests.support.store.jobs import fail_jobs, failed, job, later, limited
from tests.support.threads import together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from steady_queue.store.job import NewJob
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow
    from tests.support.store.stores import SyncStore

ROUNDS = 8


@pytest.mark.parametrize("make", [job, limited])
def test_of_two_retries_at_once_one_does_it(store: SyncStore, make: Callable[[], NewJob]) -> None:
    for _ in range(ROUNDS):
        new = make()
        fail_jobs(store, new)
        done = together(
            partial(actions.retry, new.id),
            lambda new=new: asyncio.run(actions.aretry(new.id)),  # type: ignore[misc]
        )
        assert sorted(done) == [False, True]
        assert counts(store.alias) == {"ready": 1}
        actions.discard(new.id)


def test_two_sweeps_at_once_retry_each_task_once(store: SyncStore) -> None:
    fail_jobs(store, *[job() for _ in range(300)], *[limited(f"key {n}") for n in range(30)])
    numbers = together(*[actions.retry_where] * 3)
    assert sum(numbers) == 330
    assert counts(store.alias) == {"ready": 330}


@pytest.mark.parametrize("make", [job, limited])
def test_a_task_is_discarded_or_claimed_and_never_both(store: SyncStore, make: Callable[[], NewJob]) -> None:
    worker = store.worker()
    for _ in range(ROUNDS):
        new = make()
        store.enqueue(new)

        def discard(id_: UUID = new.id) -> bool:
            try:
                return actions.discard(id_)
            except JobIsRunning:
                return False

        gone: Any
        claims: Any
        gone, claims = together(discard, partial(store.claim, worker))
        assert gone is not bool(claims)
        assert counts(store.alias) == ({"claimed": 1} if claims else {})
        for claim in claims:
            store.settle(Finished(claim))
        assert count(store.alias, "semaphore") == 0


def test_a_blocked_task_run_now_while_its_slot_frees_is_ready_once(store: SyncStore) -> None:
    worker = store.worker()
    for _ in range(ROUNDS):
        holder, blocked, last = limited(), limited(), limited()
        store.enqueue(holder, blocked, last)
        (claim,) = store.claim(worker)
        by_hand: Any
        settled: Any
        by_hand, settled = together(partial(actions.run_now, blocked.id), partial(store.settle, Finished(claim)))
        # The first of the two allocates the slot, and the other finds none.
        assert by_hand is (settled.promoted == 0)
        assert store.status(blocked) == ["ready"]
        assert store.status(last) == ["blocked"]
        assert count(store.alias, "semaphore") == 1
        actions.discard_where("blocked")
        actions.discard_where("ready")


def test_a_blocked_task_is_run_now_or_discarded(store: SyncStore) -> None:
    for _ in range(ROUNDS):
        holder, blocked = limited(), limited()
        store.enqueue(holder, blocked)

        def quietly(action: Callable[[UUID], bool], id_: UUID = blocked.id) -> bool:
            try:
                return action(id_)
            except TaskResultDoesNotExist:
                return False

        together(partial(quietly, actions.run_now), partial(quietly, actions.discard), partial(quietly, actions.retry))
        assert count(store.alias, "job") == 1  # ready ones are discarded as well
        assert actions.discard(holder.id)
        assert count(store.alias, "semaphore") == 0


def test_a_queue_is_cleared_while_claims_go_on(store: SyncStore) -> None:
    jobs = [job() for _ in range(300)] + [limited(f"key {n % 20}") for n in range(200)]
    random.Random(1).shuffle(jobs)
    store.enqueue(*jobs)

    def work() -> int:
        worker, ran = store.worker(), 0
        while claims := store.claim(worker, 7):
            store.settle(*map(Finished, claims))
            ran += len(claims)
        return ran

    cleared, *ran = together(partial(actions.clear_queue, "default"), work, work)
    left = counts(store.alias)
    assert cleared + sum(ran) + sum(left.values()) == 500
    assert count(store.alias, "job") == 500 - cleared
    ran.append(work())
    assert cleared + sum(ran) == 500
    assert counts(store.alias) == {}


def test_after_a_pause_nothing_more_is_claimed(store: SyncStore) -> None:
    store.enqueue(*[job() for _ in range(200)])

    def work() -> int:
        worker, ran = store.worker(), 0
        while claims := store.claim(worker, 3):
            ran += len(claims)
        return ran

    def pause() -> int:
        actions.pause("default")
        return counts(store.alias).get("ready", 0)

    ready, *ran = together(pause, work, work)
    assert sum(ran) == counts(store.alias).get("claimed", 0)
    # A claim that began before the pause was committed may still end; no other begins.
    assert ready - counts(store.alias).get("ready", 0) <= 6
    assert store.claim(store.worker(), 9) == []


def test_two_pauses_and_two_resumes_at_once_are_one(store: SyncStore) -> None:
    for _ in range(ROUNDS):
        assert True in together(*[partial(actions.pause, "mail")] * 3)
        assert count(store.alias, "pause") == 1
        assert True in together(*[partial(actions.resume, "mail")] * 3)
        assert count(store.alias, "pause") == 0


def test_two_cleanups_at_once_count_each_task_once(store: SyncStore) -> None:
    claims = store.claimed(*[job() for _ in range(400)])
    store.settle(*map(Finished, claims[:200]))
    store.settle(*map(failed, claims[200:]))
    which = cleanup.build_ended_filter(later())
    assert sum(together(*[partial(cleanup.clear_finished, which, batch=40)] * 3)) == 200
    assert sum(together(*[partial(cleanup.clear_failed, which, batch=40)] * 3)) == 200
    assert count(store.alias, "job") == 0


def test_everything_at_once_leaves_every_task_in_one_place(store: SyncStore) -> None:
    jobs = [limited(f"key {n % 5}", to=1 + n % 2, priority=n % 3) for n in range(60)] + [job() for _ in range(30)]
    store.enqueue(*jobs)

    def work(seed: int) -> None:
        chance, worker = random.Random(seed), store.worker()
        for _ in range(15):
            for claim in store.claim(worker, chance.randrange(1, 4)):
                store.settle(Finished(claim) if chance.random() < 0.5 else failed(claim))

    def meddle(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(15):
            some = [new.id for new in chance.sample(jobs, 6)]
            chance.choice([actions.retry_many, actions.run_now_many, actions.discard_many])(some)
        actions.retry_where()

    together(*[partial(work, seed) for seed in range(2)], *[partial(meddle, seed) for seed in range(2)])
    worker = store.worker()
    actions.retry_where()
    while claims := store.claim(worker, 20):
        store.settle(*map(Finished, claims))
    assert counts(store.alias) == {}
    assert count(store.alias, "semaphore") == 0


@pytest.mark.only_on("postgres", "mariadb")
def test_actions_in_an_open_transaction_block_no_worker_of_the_same_key(database: str, store: SyncStore) -> None:
    bad, holder, blocked, running = limited(to=2), limited(to=2), limited(to=2), limited(to=2)
    fail_jobs(store, bad)
    (claim,) = store.claimed(running)
    store.enqueue(holder, blocked)

    def work() -> None:
        store.settle(Finished(claim))
        store.enqueue(limited(to=2))

    with transaction.atomic(using=database):
        assert actions.retry(bad.id)
        assert actions.discard(holder.id)
        run_with_short_lock_timeout(database, work)
    assert counts(database)["ready"] == 2


# -- another commit between two statements ---------------------------------------------------------------------------


@pytest.fixture
def other(database: str) -> Iterator[OpenTransaction]:
    session = OpenTransaction(database)
    yield session
    session.close()


def interrupted(flow: Flow[Any], before: str, meanwhile: Callable[[], object]) -> Flow[Any]:
    """The flow; `meanwhile` runs right before its first statement that contains this text."""
    is_told = False
    try:
        statement = next(flow)
        while True:
            if before in statement.text and not is_told:
                is_told = True
                meanwhile()
            statement = flow.send((yield statement))
    except StopIteration as done:
        assert is_told
        return done.value


def fails_again(store: Any, one: NewJob) -> None:
    """Retry it, run it, and fail it once more."""
    store.retry(one)
    (claim,) = store.claim(store.worker())
    store.settle(Failed(claim, ErrorReport("builtins.KeyError", "", "")))


@pytest.mark.only_on("postgres", "mariadb")
def test_a_failure_of_this_moment_is_not_cleared_as_an_old_one(store: SyncStore, other: OpenTransaction) -> None:
    one = job()
    fail_jobs(store, one)
    query(store.alias, "UPDATE steady_queue_failedexecution SET failed_at = '2020-01-01 00:00:00.000000'")
    clear = clear_failed.flow(store.sql, EndedFilter(timedelta(days=30)), CleanupPosition(), 500)
    flow = interrupted(clear, "FOR UPDATE", lambda: other.do(lambda theirs: fails_again(theirs, one)))
    cleared = store.run(Operation("clear failed", lambda: flow))
    assert (cleared.jobs, count(store.alias, "failedexecution")) == (0, 1)


@pytest.mark.only_on("postgres", "mariadb")
def test_a_task_that_meanwhile_failed_in_another_way_is_not_retried(store: SyncStore, other: OpenTransaction) -> None:
    one = job()
    fail_jobs(store, one)
    some = bulk_actions.retry_window(
        store.sql, bulk_actions.JobFilter(exception_class="builtins.ValueError"), bulk_actions.Position()
    )
    flow = interrupted(some.flow(), "FOR UPDATE", lambda: other.do(lambda theirs: fails_again(theirs, one)))
    assert store.run(replace(some, flow=lambda: flow)).result.ids == []
    assert store.status(one) == ["failed"]


@pytest.mark.only_on("postgres", "mariadb")
def test_a_task_that_is_retried_meanwhile_is_discarded_all_the_same(
    store: SyncStore, other: OpenTransaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = job()
    fail_jobs(store, one)
    lock_executions = revision.lock_executions
    times: list[int] = []

    def racing(sql: Dialect, table: str, ids: Sequence[UUID]) -> Flow[Any]:
        flow = lock_executions(sql, table, ids)
        if table != "failedexecution" or times:
            return flow
        times.append(1)
        return interrupted(flow, "failedexecution", lambda: other.do(lambda theirs: theirs.retry(one)))

    monkeypatch.setattr(revision, "lock_executions", racing)
    assert actions.discard(one.id)
    assert count(store.alias, "job") == 0
