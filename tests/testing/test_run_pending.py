"""`run_pending` and `arun_pending` in plain functions: what they run, in which order, and with which results."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.test import override_settings
from django.utils import timezone, translation

import steady_queue
from steady_queue import enqueue_all
from steady_queue.jobs.compat import TaskResultStatus, task_finished, task_started
from steady_queue.models import Job, Pause
from tests.shop import tasks as shop
from tests.shop.models import Customer
from tests.support.databases.tables import count, counts, query
from tests.testing import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.jobs.compat import Task, TaskResult
    from tests.testing.conftest import Run

pytestmark = pytest.mark.contract


def values(results: list[TaskResult[Any]]) -> list[Any]:
    return [result.return_value for result in results]


def test_without_tasks_there_are_no_results(database: str, run: Run) -> None:
    assert run() == []
    assert count(database, "process") == 0


def test_sync_and_async_tasks_run_and_their_results_are_returned(database: str, run: Run) -> None:
    first = shop.add.enqueue(1, b=2)
    second = shop.greet.enqueue("Ada", times=2)

    results = run()

    assert [result.id for result in results] == [first.id, second.id]
    assert values(results) == [3, "Hello, Ada! Hello, Ada!"]
    assert {result.status for result in results} == {TaskResultStatus.SUCCESSFUL}
    assert [result.worker_ids for result in results] == [["run_pending"]] * 2
    first.refresh()
    assert (first.return_value, first.attempts) == (3, 1)
    assert counts(database) == {}
    assert count(database, "process") == 0


def test_a_second_call_runs_only_what_is_new(database: str, run: Run) -> None:
    tasks.named.enqueue("first")
    assert values(run()) == ["first"]
    tasks.named.enqueue("second")
    assert values(run()) == ["second"]
    assert run() == []


def test_larger_priorities_run_first_then_older_tasks_of_either_kind(database: str, run: Run) -> None:
    tasks.named.enqueue("c")
    tasks.anamed.enqueue("d")
    tasks.named.enqueue("e")
    tasks.anamed.using(priority=1).enqueue("b")
    tasks.named.using(priority=-1).enqueue("f")
    tasks.anamed.using(priority=2).enqueue("a")
    assert values(run()) == ["a", "b", "c", "d", "e", "f"]


def test_queues_run_in_the_order_given_and_others_wait(database: str, run: Run) -> None:
    for queue in ("default", "mail", "reports", "queue_1"):
        tasks.named.using(queue_name=queue).enqueue(queue)
    assert values(run(queues="mail")) == ["mail"]
    assert values(run(queues=["repor*", "default"])) == ["reports", "default"]
    assert values(run(queues=["*"])) == ["queue_1"]
    assert run(queues=[]) == []


def test_a_paused_queue_waits(database: str, run: Run) -> None:
    Pause.objects.using(database).create(queue_name="mail", created_at=timezone.now())
    tasks.named.using(queue_name="mail", priority=50).enqueue("paused")
    tasks.named.enqueue("not paused")
    assert values(run()) == ["not paused"]
    assert counts(database) == {"ready": 1}


@pytest.mark.parametrize("task", [tasks.spreads, tasks.aspreads])
def test_what_tasks_enqueue_runs_too(database: str, run: Run, task: Task[..., Any]) -> None:
    task.enqueue(3)
    assert values(run()) == [3, 2, 1, 0]


def test_an_endless_chain_is_stopped_and_named(database: str, run: Run) -> None:
    tasks.spreads.enqueue(10)
    with pytest.raises(RuntimeError, match=r"has run 5 tasks \(at_most\) and more are waiting.+tasks\.spreads"):
        run(at_most=5)
    assert values(run(at_most=6)) == [5, 4, 3, 2, 1, 0]


def test_scheduled_tasks_wait_for_their_time(database: str, run: Run) -> None:
    tasks.named.using(run_after=timedelta(hours=1)).enqueue("later")
    assert run() == []
    query(database, "UPDATE steady_queue_scheduledexecution SET scheduled_at = '2020-01-01 00:00:00'")
    assert values(run()) == ["later"]


def test_scheduled_tasks_can_run_before_their_time_in_their_order(database: str, run: Run) -> None:
    last = tasks.named.using(run_after=timedelta(days=400), priority=100).enqueue("last")
    tasks.anamed.using(run_after=timedelta(hours=1)).enqueue("second")
    tasks.spreads.enqueue(1)

    assert values(run(including_scheduled=True)) == [1, 0, "second", "last"]
    last.refresh()
    assert last.task.run_after is not None
    assert last.task.run_after > timezone.now() + timedelta(days=399)


def test_scheduled_tasks_can_run_up_to_a_time_and_of_some_queues(database: str, run: Run) -> None:
    tasks.named.using(run_after=timedelta(hours=3)).enqueue("three hours")
    tasks.named.using(run_after=timedelta(hours=1), queue_name="mail").enqueue("mail")
    tasks.named.using(run_after=timedelta(hours=2)).enqueue("two hours")

    assert values(run(including_scheduled=timedelta(hours=2.5), queues="default")) == ["two hours"]
    assert counts(database) == {"scheduled": 2}
    assert values(run(including_scheduled=timedelta(hours=2.5))) == ["mail"]
    assert run(including_scheduled=timedelta(0)) == []
    assert values(run(including_scheduled=True)) == ["three hours"]


def test_a_task_that_repeats_itself_later_ends_with_the_time_given(database: str, run: Run) -> None:
    tasks.again_later.enqueue()
    assert len(run(including_scheduled=timedelta(minutes=5))) == 1
    # Each new one is ten minutes from now, as the time does not advance: up to there they never end.
    with pytest.raises(RuntimeError, match="again_later"):
        run(including_scheduled=True, at_most=4)


def test_tasks_with_the_same_key_run_one_after_another(database: str, run: Run) -> None:
    enqueue_all([tasks.limited.bind("ada", number) for number in range(3)])
    assert counts(database) == {"ready": 1, "blocked": 2}
    assert values(run()) == [0, 1, 2]
    assert count(database, "semaphore") == 0


def test_scheduled_tasks_with_a_limit_become_due_together_as_they_would(database: str, run: Run) -> None:
    moment = timezone.now() + timedelta(hours=1)
    for number in range(2):
        tasks.limited.using(run_after=moment).enqueue("ada", number)
        tasks.only_one.using(run_after=moment).enqueue("ada")
    later = tasks.only_one.using(run_after=moment + timedelta(seconds=1)).enqueue("ada")

    results = run(including_scheduled=True)

    assert [result.task.func for result in results] == [
        tasks.limited.func,
        tasks.only_one.func,
        tasks.limited.func,
        tasks.only_one.func,
    ]
    assert results[-1].id == later.id


def test_a_failure_is_reported_by_its_result_and_the_other_tasks_run(database: str, run: Run) -> None:
    shop.fail.enqueue("no luck")
    tasks.afails.enqueue("nothing found")
    tasks.named.enqueue("after them")

    first, second, third = run()

    assert (first.status, second.status) == (TaskResultStatus.FAILED,) * 2
    assert first.errors[0].exception_class is ValueError
    assert "no luck" in first.errors[0].traceback
    assert second.errors[0].exception_class is LookupError
    assert third.return_value == "after them"
    assert counts(database) == {"failed": 2}


@pytest.mark.parametrize(("task", "kind"), [(shop.fail, ValueError), (tasks.afails, LookupError)])
def test_with_raising_the_first_failure_is_raised_after_it_was_settled(
    database: str, run: Run, task: Task[..., Any], kind: type[Exception]
) -> None:
    tasks.named.enqueue("before")
    failing = task.enqueue("as the task raised it")
    tasks.named.enqueue("after")

    with pytest.raises(kind, match=r"^'?as the task raised it'?$"):
        run(raising=True)

    failing.refresh()
    assert failing.status == TaskResultStatus.FAILED
    assert values(run(raising=True)) == ["after"]


def test_a_key_that_was_pressed_in_a_task_stops_the_test(database: str, run: Run) -> None:
    interrupted = tasks.is_interrupted.enqueue()
    tasks.named.enqueue("after")
    with pytest.raises(KeyboardInterrupt):
        run()
    interrupted.refresh()
    assert interrupted.status == TaskResultStatus.FAILED
    assert counts(database) == {"failed": 1, "ready": 1}


def test_a_cancellation_that_a_task_made_up_is_its_failure(database: str, run: Run) -> None:
    tasks.cancels_itself.enqueue()
    (result,) = run()
    assert result.errors[0].exception_class_path == "asyncio.exceptions.CancelledError"


def test_a_model_instance_that_is_gone_fails_its_task(database: str, run: Run) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    tasks.renames.enqueue(ada, "Lovelace")
    ada.delete()
    (result,) = run()
    assert result.errors[0].exception_class_path == "steady_queue.errors.DeserializationError"


def test_a_task_that_no_longer_exists_fails_and_is_named(database: str, run: Run) -> None:
    tasks.named.enqueue("x")
    Job.objects.using(database).update(task_path="tests.testing.tasks.gone")
    with pytest.raises(LookupError, match=r"tests\.testing\.tasks\.gone"):
        run()
    assert counts(database) == {"failed": 1}


def test_sync_tasks_run_in_the_thread_of_the_test(database: str, run: Run) -> None:
    tasks.returns_thread.enqueue()
    tasks.areturns_orm_thread.enqueue()
    assert values(run()) == [threading.get_ident()] * 2


def test_a_task_that_takes_its_context_gets_it(database: str, run: Run) -> None:
    result = tasks.returns_context.enqueue()
    assert values(run()) == [[result.id, 1, ["run_pending"]]]


@pytest.mark.parametrize("task", [tasks.returns_locale, tasks.areturns_locale])
def test_a_task_has_the_locale_of_its_enqueuer_and_restores_the_one_before(
    database: str, run: Run, task: Task[..., Any]
) -> None:
    with translation.override("de"), timezone.override("Europe/Paris"):
        task.enqueue()
    tasks.sets_locale.enqueue()
    task.enqueue()

    with translation.override("pt-br"), timezone.override("America/Lima"):
        first, _, last = values(run())
        assert (translation.get_language(), timezone.get_current_timezone_name()) == ("pt-br", "America/Lima")

    assert first == ["de", "Europe/Paris", "unset"]
    assert last == ["en-us", "UTC", "unset"]


def test_finished_jobs_that_are_not_preserved_have_results_all_the_same(
    database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "preserve_finished_jobs", False)
    result = shop.add.enqueue(1, 2)
    shop.fail.enqueue("kept")
    done, failed = run()
    assert (done.id, done.status, done.return_value) == (result.id, TaskResultStatus.SUCCESSFUL, 3)
    assert failed.status == TaskResultStatus.FAILED
    assert count(database, "job") == 1


@pytest.fixture
def signals_sent() -> Iterator[list[tuple[str, str]]]:
    """The signals that were sent during the test."""
    sent: list[tuple[str, str]] = []

    def started(task_result: TaskResult[Any], **_: Any) -> None:
        sent.append(("started", task_result.status))

    def finished(task_result: TaskResult[Any], **_: Any) -> None:
        sent.append(("finished", task_result.status))

    task_started.connect(started)
    task_finished.connect(finished)
    yield sent
    task_started.disconnect(started)
    task_finished.disconnect(finished)


def test_signals_are_sent_and_no_receiver_of_ours_stays(
    database: str, run: Run, signals_sent: list[tuple[str, str]]
) -> None:
    receivers = len(task_finished.receivers)
    tasks.named.enqueue("x")
    shop.fail.enqueue("y")
    run()
    assert signals_sent == [
        ("started", TaskResultStatus.RUNNING),
        ("finished", TaskResultStatus.SUCCESSFUL),
        ("started", TaskResultStatus.RUNNING),
        ("finished", TaskResultStatus.FAILED),
    ]
    assert len(task_finished.receivers) == receivers


@pytest.fixture
def without_time_zones(database: str) -> Iterator[None]:
    with override_settings(USE_TZ=False, TIME_ZONE="America/Lima"):
        connections[database].close()
        yield
    connections[database].close()


def test_jobs_are_run_without_time_zones_too(database: str, run: Run, without_time_zones: None) -> None:
    tasks.named.enqueue("now")
    tasks.named.using(run_after=timedelta(hours=2)).enqueue("later")
    tasks.named.using(run_after=timedelta(hours=8)).enqueue("much later")
    assert values(run(including_scheduled=timedelta(hours=3))) == ["now", "later"]
