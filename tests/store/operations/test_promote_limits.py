"""Promote: limits that change between two promotions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from steady_queue.store.operations import promote as promotions
from steady_queue.store.operations.actions.job_actions import discard
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import counts
from tests.support.store.jobs import PATH, failed, job, limited
from tests.support.store.rows import store_blocked

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from steady_queue.store.statement import Flow, Operation
    from tests.support.store.stores import Store


# -- limits that change -----------------------------------------------------------------------------------------------


def test_a_limit_that_was_lowered_holds_from_then_on(store: Store) -> None:
    jobs = [limited(to=3) for _ in range(4)]
    claims = store.claimed(*jobs[:3])
    store.enqueue(jobs[3], limits={PATH: 1})
    assert store.status(jobs[3]) == ["blocked"]
    store.settle(*map(Finished, claims[:2]), limits={PATH: 1})
    assert store.status(jobs[3]) == ["blocked"]
    store.settle(Finished(claims[2]), limits={PATH: 1})
    assert store.status(jobs[3]) == ["ready"]


def test_a_limit_that_was_raised_is_used_at_once(store: Store) -> None:
    jobs = [limited(to=1) for _ in range(6)]
    store.enqueue(*jobs[:5])
    store.enqueue(jobs[5], limits={PATH: 4})
    assert store.status(*jobs) == ["ready"] * 4 + ["blocked"] * 2
    store.discard(*jobs)  # the invariants know only the stored limits


def test_a_limit_that_was_raised_is_used_up_when_a_job_ends(store: Store) -> None:
    holder, *waiting = [limited(to=1) for _ in range(7)]
    (claim,) = store.claimed(holder)
    store.enqueue(*waiting)
    store.settle(Finished(claim), limits={PATH: 4})
    assert store.status(*waiting) == ["ready"] * 4 + ["blocked"] * 2
    store.discard(*waiting)


def test_a_limit_that_was_raised_is_used_up_after_a_retry_and_a_discard(store: Store) -> None:
    first, second, *waiting = [limited(to=1) for _ in range(7)]
    (claim,) = store.claimed(first)
    store.enqueue(second, *waiting)
    store.settle(failed(claim))
    store.retry(first, limits={PATH: 3})
    assert store.status(first, second, *waiting) == ["ready"] * 3 + ["blocked"] * 4
    store.discard(first, limits={PATH: 5})
    assert store.status(second, *waiting) == ["ready"] * 5 + ["blocked"]
    store.discard(second, *waiting)


def test_the_stored_limit_is_used_for_tasks_that_are_not_in_the_code(store: Store) -> None:
    jobs = [limited(to=2, task_path="gone.from.the.code") for _ in range(3)]
    store.enqueue(*jobs, limits={PATH: 1})
    assert store.status(*jobs) == ["ready", "ready", "blocked"]


def test_the_largest_limit_there_is_can_be_used(store: Store) -> None:
    first, second, third = (limited(to=2**31 - 1) for _ in range(3))
    store.enqueue(first, second)
    (claim, _) = store.claim(store.worker(), 2)
    store.enqueue(third, promoting=False)
    assert store.settle(Finished(claim)).promoted == 1
    assert store.status(third) == ["ready"]


def test_more_than_a_statement_takes_are_promoted_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotions, "JOBS_PER_STATEMENT", 3)
    jobs = [limited(to=2**31 - 1) for _ in range(8)]
    store_blocked(store, *jobs)
    assert store.promote({"key": 2**31 - 1}) == [one.id for one in jobs]


def test_after_a_limit_was_lowered_no_more_rows_are_read_than_it_grants(store: Store) -> None:
    in_force = {PATH: 1}
    jobs = [limited(to=200) for _ in range(300)]
    store.enqueue(*jobs, limits=in_force)
    (claim,) = store.claim(store.worker())
    read: list[int] = []
    operations: list[Operation[Any]] = [
        settle(store.sql, [Finished(claim)], process_name="worker", limits=in_force),
        discard(store.sql, [jobs[1].id], limits=in_force),
    ]
    for operation in operations:
        store.run(replace(operation, flow=partial(counted, operation.flow, read)))
    assert counts(store.alias) == {"ready": 1, "blocked": 297}
    assert max(read) <= 2


def counted(flow: Callable[[], Flow[Any]], read: list[int]) -> Flow[Any]:
    """The flow; how many rows each of its statements brings is noted."""
    steps = flow()
    try:
        statement = next(steps)
        while True:
            rows = yield statement
            read.append(len(rows))
            statement = steps.send(rows)
    except StopIteration as done:
        return done.value


def test_a_refused_job_is_not_overtaken_by_one_with_a_larger_limit(store: Store) -> None:
    # Two tasks of one group: the strict one came first and waits for an empty key.
    holder, strict, lax = limited(to=2), limited(to=1, task_path="strict"), limited(to=2, priority=-1)
    store.enqueue(holder, strict, lax)
    assert store.status(holder, strict, lax) == ["ready", "blocked", "blocked"]
    store.discard(holder)
    assert store.status(strict, lax) == ["ready", "ready"]


def test_tasks_of_one_group_fill_the_larger_limit_in_any_order_of_enqueue(store: Store) -> None:
    lax = [limited(to=4, task_path="lax", priority=1) for _ in range(4)]
    strict = limited(to=1, task_path="strict")
    store.enqueue(*lax, strict)
    assert store.status(*lax, strict) == ["ready"] * 4 + ["blocked"]


def test_a_job_without_a_key_is_never_blocked(store: Store) -> None:
    jobs = [job() for _ in range(3)]
    store.enqueue(limited(), *jobs)
    assert store.status(*jobs) == ["ready"] * 3
