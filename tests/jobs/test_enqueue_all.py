"""Bulk enqueue: many calls in one transaction, all or none, with results in their order."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction
from django.test import override_settings

from steady_queue import enqueue_all
from steady_queue.errors import ArgumentError, ConcurrencyKeyError, ConfigurationError
from steady_queue.jobs.compat import FRAMEWORK, InvalidTask, TaskResultDoesNotExist, TaskResultStatus, task_enqueued
from tests.shop import framework_tasks, tasks
from tests.support.databases.tables import count, counts, query
from tests.support.store.manual_worker import Worker

if TYPE_CHECKING:
    from tests.jobs.conftest import PutAll

pytestmark = pytest.mark.contract

OURS = "steady_queue.backend.SteadyQueueBackend"


# -- what is stored ---------------------------------------------------------------------------------------------------


def test_the_results_are_in_the_order_of_the_calls(database: str, put_all: PutAll) -> None:
    stored = put_all(tasks.add.bind(number, b=-number) for number in range(20))
    assert [(result.args, result.kwargs) for result in stored] == [([n], {"b": -n}) for n in range(20)]
    assert stored.ids == sorted(stored.ids)
    assert [tasks.add.get_result(id_).args for id_ in stored.ids] == [[n] for n in range(20)]
    assert counts(database) == {"ready": 20}


def test_jobs_of_one_bulk_are_claimed_in_the_order_of_the_calls(database: str, put_all: PutAll) -> None:
    stored = put_all([tasks.add.bind(number) for number in range(5)])
    worker = Worker(database)
    assert [str(worker.claim().job_id) for _ in range(5)] == stored.ids


def test_calls_of_several_tasks_go_together(database: str, put_all: PutAll) -> None:
    urgent = tasks.send_mail.using(priority=99)
    stored = put_all(
        [
            tasks.add.bind(1),
            urgent.bind("ada@example.com"),
            tasks.greet.bind("Ada", times=2),
            (framework_tasks.multiply, [6], {"b": 7}),
        ]
    )
    assert [result.task for result in stored] == [tasks.add, urgent, tasks.greet, framework_tasks.multiply]
    found = [result.task.get_result(result.id) for result in stored]
    assert [(seen.args, seen.kwargs) for seen in found] == [
        ([1], {}),
        (["ada@example.com"], {}),
        (["Ada"], {"times": 2}),
        ([6], {"b": 7}),
    ]
    assert all(seen.status == TaskResultStatus.READY for seen in found)


def test_ready_scheduled_and_limited_jobs_get_their_states(database: str, put_all: PutAll) -> None:
    moment = datetime(2040, 1, 1, tzinfo=UTC)
    put_all(
        [
            *(tasks.add.bind(number) for number in range(3)),
            *(tasks.add.using(run_after=moment).bind(number) for number in range(2)),
            tasks.add.using(run_after=timedelta(days=-1)).bind(0),
            *(tasks.charge.bind(account) for account in ("ada", "ada", "alan", "ada")),
            *(tasks.export.bind(name) for name in "abc"),
            tasks.charge.using(run_after=moment).bind("ada"),
        ]
    )
    assert counts(database) == {"ready": 3 + 1 + 2 + 2, "scheduled": 2 + 1, "blocked": 2 + 1}
    assert query(database, "SELECT count(*) FROM steady_queue_job WHERE scheduled_at IS NOT NULL") == [(4,)]


def test_of_jobs_that_do_not_wait_only_as_many_as_fit_are_stored(database: str, put_all: PutAll) -> None:
    stored = put_all([tasks.refresh.bind(account) for account in (1, 1, 2, 1)])
    assert counts(database) == {"ready": 2}
    assert count(database, "job") == 2
    exists = []
    for result in stored:
        try:
            exists.append(bool(tasks.refresh.get_result(result.id)))
        except TaskResultDoesNotExist:
            exists.append(False)
    assert exists == [True, False, True, False]
    assert stored.discarded == [stored.ids[1], stored.ids[3]]
    assert stored.stored.ids == [stored.ids[0], stored.ids[2]]
    assert (len(stored), len(stored.stored), len(stored[2:].discarded)) == (4, 2, 1)


def test_without_discarded_jobs_all_results_are_of_stored_ones(database: str, put_all: PutAll) -> None:
    stored = put_all([tasks.charge.bind(account) for account in (1, 1)])
    assert (stored.discarded, stored.stored.ids) == ([], stored.ids)


def test_the_jobs_of_a_bulk_in_a_transaction_that_are_discarded_are_known_after_its_commit(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "steady_queue"):
        with transaction.atomic(using=database):
            stored = enqueue_all([tasks.refresh.bind(account) for account in (1, 1, 2)])
            assert (stored.discarded, len(stored.stored)) == ([], 3)
            assert not caplog.records
        assert stored.discarded == [stored.ids[1]]
    assert [(record.event, record.getMessage()) for record in caplog.records] == [  # type: ignore[attr-defined]
        ("JobRefused", f"job {stored.ids[1]} was discarded: its concurrency key had no free slot")
    ]


def test_the_signal_of_an_enqueued_task_is_sent_for_those_only_that_were_not_discarded(
    database: str, put_all: PutAll
) -> None:
    received: list[str] = []

    def receive(task_result: Any, **_: Any) -> None:
        received.append(task_result.id)

    task_enqueued.connect(receive)
    try:
        stored = put_all([tasks.refresh.bind(account) for account in (1, 1, 2)])
    finally:
        task_enqueued.disconnect(receive)
    assert received == stored.stored.ids == [stored.ids[0], stored.ids[2]]


def test_more_calls_than_one_insert_takes_are_stored(database: str, put_all: PutAll) -> None:
    number = 6_001
    stored = put_all([tasks.add.bind(at) for at in range(number)])
    assert len(stored) == count(database, "job") == count(database, "readyexecution") == number
    assert tasks.add.get_result(stored.ids[-1]).args == [number - 1]


def test_more_arguments_than_one_packet_takes_are_stored(database: str, put_all: PutAll) -> None:
    text = "x" * 3_900_000
    stored = put_all([tasks.anything.bind(text) for _ in range(5)])
    assert query(database, "SELECT count(*) FROM steady_queue_job WHERE length(arguments) > 3900000") == [(5,)]
    assert len(stored) == 5


# -- calls ------------------------------------------------------------------------------------------------------------


def test_calls_may_be_tuples_and_come_from_any_iterable(database: str, put_all: PutAll) -> None:
    calls: list[Any] = [(tasks.add, [1], {"b": 2}), (tasks.add, (1,)), (tasks.with_context,), tasks.add.bind(b=5, a=4)]
    stored = put_all(iter(calls))
    assert [(result.args, result.kwargs) for result in stored] == [
        ([1], {"b": 2}),
        ([1], {}),
        ([], {}),
        ([], {"b": 5, "a": 4}),
    ]


def test_an_empty_list_stores_nothing_and_runs_no_query(database: str, put_all: PutAll) -> None:
    connections[database].close()
    stored = put_all([])
    assert (len(stored), stored.ids, list(stored)) == (0, [], [])
    assert connections[database].connection is None


@pytest.mark.parametrize(
    "bad",
    [5, "ab", None, len, (len, [1]), (tasks.add, [], {}, 4), ()],
    ids=["number", "text", "nothing", "function", "no task", "too long", "too short"],
)
def test_what_is_not_a_call_is_refused(database: str, put_all: PutAll, bad: Any) -> None:
    with pytest.raises(TypeError):
        put_all([tasks.add.bind(1), bad])
    assert count(database, "job") == 0


def test_a_text_in_the_place_of_the_arguments_is_refused(database: str, put_all: PutAll) -> None:
    with pytest.raises(TypeError):
        put_all([(tasks.greet, "Ada")])
    assert count(database, "job") == 0


def test_calls_of_different_backends_are_refused(database: str, put_all: PutAll) -> None:
    with pytest.raises(ConfigurationError, match=r"anything.*default"):
        put_all([tasks.add.bind(1), tasks.add.using(backend="anything").bind(2)])
    assert count(database, "job") == 0


def test_a_backend_of_the_framework_is_refused(database: str, put_all: PutAll) -> None:
    dummy = {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"}
    with (
        override_settings(TASKS={"default": {"BACKEND": OURS}, "dummy": dummy}),
        pytest.raises(ConfigurationError, match="DummyBackend"),
    ):
        put_all([tasks.add.using(backend="dummy").bind(1)])


# -- all or none ------------------------------------------------------------------------------------------------------


def test_one_bad_argument_stores_nothing_and_is_named(database: str, put_all: PutAll) -> None:
    with pytest.raises(ArgumentError, match=r"^tests\.shop\.tasks\.\w+\(\): kwargs\['b'\]") as caught:
        put_all([*(tasks.add.bind(1) for _ in range(10)), (tasks.add, (1,), {"b": object()}), tasks.add.bind(2)])
    assert caught.value.stored == "no"
    assert count(database, "job") == 0


def test_one_bad_key_stores_nothing(database: str, put_all: PutAll) -> None:
    with pytest.raises(ConcurrencyKeyError, match=r"tests\.shop\.tasks\.invoice could not be computed") as caught:
        put_all([tasks.add.bind(1), tasks.invoice.bind(5), tasks.invoice.bind(0)])
    assert type(caught.value.__cause__) is ZeroDivisionError
    assert count(database, "job") == 0


def test_one_task_that_is_no_longer_valid_stores_nothing(database: str, put_all: PutAll) -> None:
    with (
        override_settings(TASKS={"default": {"BACKEND": OURS, "QUEUES": ["default"]}}),
        pytest.raises(InvalidTask, match="mail"),
    ):
        put_all([tasks.add.bind(1), tasks.send_mail.bind("ada@example.com")])
    assert count(database, "job") == 0


def test_a_bulk_inside_a_transaction_is_rolled_back_with_it(database: str) -> None:
    with transaction.atomic(using=database):
        enqueue_all([*(tasks.add.bind(number) for number in range(10)), tasks.charge.bind("ada")])
        assert count(database, "job") == 11
        transaction.set_rollback(True, using=database)
    assert count(database, "job") == 0
    assert counts(database) == {}


def test_limited_jobs_of_a_bulk_get_their_slots_after_the_commit(database: str) -> None:
    with transaction.atomic(using=database):
        enqueue_all([tasks.add.bind(1), *(tasks.charge.bind("ada") for _ in range(3))])
        assert counts(database) == {"ready": 1, "blocked": 3}
    assert counts(database) == {"ready": 2, "blocked": 2}


def test_a_bulk_waits_for_the_commit_of_another_database(database: str) -> None:
    with transaction.atomic(using="default"):
        stored = enqueue_all([tasks.add.bind(1), tasks.charge.bind("ada")])
        assert count(database, "job") == 0
        assert len(stored) == 2
    assert counts(database) == {"ready": 2}


def test_calls_that_disagree_about_waiting_for_a_commit_are_refused(database: str) -> None:
    with transaction.atomic(using="default"), pytest.raises(ConfigurationError, match="enqueue_on_commit"):
        enqueue_all([tasks.add.bind(1), tasks.at_once.bind()])
    assert count(database, "job") == 0


def test_a_task_without_its_call_is_named_with_what_to_pass() -> None:
    given: Any = [tasks.add]
    with pytest.raises(TypeError, match=r"pass add\.bind\(\.\.\.\), not the task add"):
        enqueue_all(given)
    with pytest.raises(TypeError, match="decorate the function with @task"):
        enqueue_all([print])  # type: ignore[list-item]
