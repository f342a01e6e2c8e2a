"""Unique tasks as callers enqueue them: keys, conflicts, results; from sync and async code, alone and in bulk."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from steady_queue import Unique, actions, enqueue_all, events, task
from steady_queue.errors import DuplicateTask, UniqueKeyError
from steady_queue.jobs.compat import InvalidTask, task_enqueued
from steady_queue.jobs.definition.task import SteadyQueueTask, TaskCall
from steady_queue.jobs.enqueueing.new_jobs import build_jobs
from steady_queue.models import Job, UniqueKey
from steady_queue.testing import run_pending
from tests.shop.models import Customer
from tests.shop.tasks import add, anything, fail, with_context
from tests.support.databases.tables import count, counts, query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.jobs.conftest import PutAll
    from tests.support.enqueue import Put

PATH = add.module_path
UNIQUE = add.using(unique=Unique(key="nightly"))
EXISTING = add.using(unique=Unique(key="nightly", on_conflict="return_existing"))
REPLACING = add.using(unique=Unique(key="nightly", on_conflict="replace"))


def key_of(task: SteadyQueueTask[..., Any], *args: Any, **kwargs: Any) -> str | None:
    (job,) = build_jobs([TaskCall(task, args, kwargs)])
    return job.unique_key


@pytest.fixture
def emitted() -> Iterator[list[events.Event]]:
    found: list[events.Event] = []
    subscriber = events.subscribe(found.append)
    yield found
    events.unsubscribe(subscriber)


# -- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_a_text_or_computed_from_the_arguments_and_begins_with_the_path() -> None:
    assert key_of(add, 1) is None
    assert key_of(UNIQUE, 1) == f"{PATH}/nightly"
    assert key_of(add.using(unique=Unique(key=lambda a, b=0: a + b)), 1, b=2) == f"{PATH}/3"


def test_without_a_key_equal_arguments_are_the_key_however_they_are_passed() -> None:
    each = add.using(unique=Unique())
    assert key_of(each, 1) == key_of(each, a=1) == key_of(each, 1, 0) == key_of(each, b=0, a=1)
    assert key_of(each, 1) != key_of(each, 1, 1)
    any_task = anything.using(unique=Unique())
    assert key_of(any_task, x=1, y=2) == key_of(any_task, y=2, x=1)
    assert len(str(key_of(any_task, "long" * 10_000))) < 200
    assert key_of(with_context.using(unique=Unique()), 5) is not None


@pytest.mark.parametrize("key", ["x" * 1_000, "\x00", "\ud800"])
def test_a_text_that_cannot_be_stored_is_refused_at_decoration(key: str) -> None:
    with pytest.raises(InvalidTask, match=f"the unique key of {PATH}"):
        add.using(unique=Unique(key=key))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [{"c": 2, "d": 3}]}, {"b": [{"d": 3, "c": 2}], "a": 1}),
        ({1: "a", (2, 3): {None: 1, "b": 2}}, {(2, 3): {"b": 2, None: 1}, 1: "a"}),
        ({"a": {1, 2, 3}, "b": 10**50}, {"b": 10**50, "a": {3, 2, 1}}),
    ],
)
def test_without_a_key_equal_dicts_are_one_key_whatever_the_order_of_their_items(one: Any, other: Any) -> None:
    each = anything.using(unique=Unique())
    assert key_of(each, one) == key_of(each, other)
    assert key_of(each, [one, 1]) != key_of(each, [1, one])


def test_a_model_instance_stands_for_its_model_and_primary_key(database: str) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    by_customer = anything.using(unique=Unique(key=lambda customer: customer))
    assert key_of(by_customer, ada) == f"{anything.module_path}/shop.Customer/{ada.pk}"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (lambda a: 1 // 0, "could not be computed: ZeroDivisionError"),
        (lambda: 1, "the function of the key must take the arguments of the task"),
        (lambda a: None, "is None"),
        (lambda a: "x" * 600, "at most 512 can be stored"),
        (lambda a: "\x00", "NUL"),
    ],
)
def test_a_key_that_cannot_be_computed_or_stored_stores_nothing(database: str, key: Any, reason: str) -> None:
    with pytest.raises(UniqueKeyError, match=reason) as refused:
        enqueue_all([add.bind(1), add.using(unique=Unique(key=key)).bind(1)])
    assert f"the unique key of {PATH}" in str(refused.value)
    assert count(database, "job") == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"key": 5}, "key must be a string or a callable"),
        ({"until": "ended"}, "until must be 'started' or 'finished'"),
        ({"within": 60}, "within must be a timedelta greater than zero"),
        ({"within": timedelta(0)}, "within must be a timedelta greater than zero"),
        ({"on_conflict": "ignore"}, "on_conflict must be 'reject', 'return_existing' or 'replace'"),
    ],
)
def test_senseless_options_are_refused_by_name(options: Any, problem: str) -> None:
    with pytest.raises(InvalidTask, match=f"unique: {problem}"):
        task(unique=Unique(**options))(add.func)
    with pytest.raises(InvalidTask, match="unique must be Unique"):
        add.using(unique="nightly")  # type: ignore[arg-type]


# -- conflicts --------------------------------------------------------------------------------------------------------


def test_a_second_task_is_refused_until_the_first_has_finished(database: str, put: Put) -> None:
    first = put(UNIQUE, 1)
    with pytest.raises(DuplicateTask) as refused:
        put(UNIQUE, 2)
    assert (refused.value.existing_ids, refused.value.stored) == ((first.id,), "no")
    run_pending()
    assert put(UNIQUE, 3).id != first.id
    assert counts(database) == {"ready": 1}


def test_the_existing_task_is_returned_as_it_is_now(database: str, put: Put) -> None:
    first = put(EXISTING, 1)
    again = put(EXISTING, 2)
    assert (again.id, again.args, again.status) == (first.id, [1], first.status)
    assert count(database, "job") == 1


def test_a_waiting_task_is_replaced(database: str, put: Put, emitted: list[events.Event]) -> None:
    first, second = put(REPLACING, 1), put(REPLACING, 2)
    assert [str(pk) for pk in Job.objects.using(database).values_list("pk", flat=True)] == [second.id]
    (replaced,) = [event for event in emitted if isinstance(event, events.JobsReplaced)]
    assert [str(id_) for id_ in replaced.job_ids] == [first.id]
    assert [result.return_value for result in run_pending()] == [2]


def test_many_calls_have_their_results_in_order(database: str, put_all: PutAll) -> None:
    before = EXISTING.enqueue(0)
    results = put_all([add.bind(1), EXISTING.bind(2), add.bind(3), EXISTING.bind(4)])
    assert [result.args for result in results] == [[1], [0], [3], [0]]
    assert results.ids == [result.id for result in results]
    assert results.existing == [before.id, before.id]
    assert [result.args for result in results.stored] == [[1], [3]]
    assert [result.args for result in results[1:]] == [[0], [3], [0]]
    assert count(database, "job") == 3


def test_of_many_calls_with_one_key_the_last_one_is_stored(database: str, put_all: PutAll) -> None:
    results = put_all([REPLACING.bind(1), REPLACING.bind(2), add.bind(3)])
    assert [result.args for result in results.stored] == [[2], [3]]
    assert results.discarded == results.ids[:1]


def test_all_or_none_of_many_calls_are_stored(database: str, put_all: PutAll) -> None:
    UNIQUE.enqueue(0)
    with pytest.raises(DuplicateTask, match="3 tasks were not stored"):
        put_all([add.bind(1), UNIQUE.bind(2), add.bind(3)])
    assert count(database, "job") == 1


def test_the_signal_is_sent_for_tasks_that_are_stored(database: str, put_all: PutAll) -> None:
    sent: list[str] = []

    def receive(task_result: Any, **_: Any) -> None:
        sent.append(task_result.id)

    first = EXISTING.enqueue(0)
    task_enqueued.connect(receive)
    try:
        results = put_all([EXISTING.bind(1), add.bind(2)])
    finally:
        task_enqueued.disconnect(receive)
    assert results.ids[0] == first.id
    assert sent == [results.ids[1]]


@pytest.mark.parametrize("preserve", [True, False])
def test_within_throttles_even_when_the_task_has_finished(
    database: str, preserve: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steady_queue.preserve_finished_jobs", preserve)
    throttled = add.using(unique=Unique(key="mail", within=timedelta(minutes=10)))
    throttled.enqueue(1)
    run_pending()
    with pytest.raises(DuplicateTask):
        throttled.enqueue(2)
    query(database, "UPDATE steady_queue_uniquekey SET held_until = '2020-01-01 00:00:00'")
    throttled.enqueue(3)
    assert [result.return_value for result in run_pending()] == [3]


def test_until_started_the_next_one_can_be_enqueued_by_the_task_itself(database: str) -> None:
    chained = fail.using(unique=Unique(key="chain", until="started"))
    first = chained.enqueue("1")
    run_pending()
    assert chained.enqueue("2").id != first.id


# -- in a transaction -------------------------------------------------------------------------------------------------


def test_inside_a_transaction_the_caller_can_go_on_after_a_conflict(database: str) -> None:
    UNIQUE.enqueue(1)
    with transaction.atomic(using=database):
        with pytest.raises(DuplicateTask):
            UNIQUE.enqueue(2)
        add.enqueue(3)
    assert counts(database) == {"ready": 2}


def test_a_replaced_task_is_back_after_a_rollback(database: str) -> None:
    first = REPLACING.enqueue(1)
    with transaction.atomic(using=database):
        REPLACING.enqueue(2)
        transaction.set_rollback(True, using=database)
    assert [str(pk) for pk in Job.objects.using(database).values_list("pk", flat=True)] == [first.id]
    assert str(UniqueKey.objects.using(database).get().job_id) == first.id


# -- retries by hand --------------------------------------------------------------------------------------------------


def test_a_failed_task_whose_key_is_taken_is_not_retried(database: str, emitted: list[events.Event]) -> None:
    failing = fail.using(unique=Unique(key="import"))
    first = failing.enqueue("broken")
    run_pending()
    second = failing.enqueue("again")
    with pytest.raises(DuplicateTask, match=f"{first.id} was not retried: the task {second.id} has") as refused:
        actions.retry(first.id)
    assert refused.value.existing_ids == (second.id,)
    assert actions.retry_many([first.id]) == []
    assert asyncio.run(actions.aretry_where()) == 0
    refusals = [event for event in emitted if isinstance(event, events.RetryRefused)]
    assert {(str(event.job_id), str(event.other_id)) for event in refusals} == {(first.id, second.id)}
    assert len(refusals) >= 2
    assert counts(database) == {"failed": 1, "ready": 1}


def test_a_task_that_has_ended_cannot_be_replaced_while_its_key_is_held(database: str, put: Put) -> None:
    held = add.using(unique=Unique(key="held", within=timedelta(hours=1), on_conflict="replace"))
    first = put(held, 1)
    run_pending()
    with pytest.raises(DuplicateTask) as refused:
        put(held, 2)
    assert refused.value.existing_ids == (first.id,)
