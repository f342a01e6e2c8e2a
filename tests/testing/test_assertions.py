"""`assert_enqueued`, `assert_not_enqueued` and `enqueued`: what they find, and what they say when they do not."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from unittest.mock import ANY

import pytest
from django.test import override_settings

from steady_queue import enqueue_all
from steady_queue.errors import ConfigurationError
from steady_queue.jobs.compat import FRAMEWORK
from steady_queue.models import Job
from steady_queue.testing import assert_enqueued, assert_not_enqueued, enqueued, run_pending
from tests.shop import tasks
from tests.shop.models import Customer

pytestmark = pytest.mark.contract


def test_any_call_of_the_task_will_do(database: str) -> None:
    first = tasks.add.enqueue(1)
    second = tasks.add.enqueue(2)
    assert [result.id for result in assert_enqueued(tasks.add)] == [first.id, second.id]
    assert_not_enqueued(tasks.greet)


def test_arguments_are_compared_as_the_task_gets_them(database: str) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    tasks.anything.enqueue((1, 2), {date(2024, 2, 29)}, customer=ada, price=Decimal("1.50"))

    assert_enqueued(tasks.anything, args=((1, 2), {date(2024, 2, 29)}))
    assert_enqueued(tasks.anything, kwargs={"customer": ada, "price": Decimal("1.5")})
    assert_enqueued(tasks.anything, args=[ANY, ANY], kwargs={"customer": ada, "price": ANY})
    assert_not_enqueued(tasks.anything, args=([1, 2], {date(2024, 2, 29)}))
    assert_not_enqueued(tasks.anything, args=())
    assert_not_enqueued(tasks.anything, kwargs={})
    assert_not_enqueued(tasks.anything, kwargs={"customer": ada})


def test_queue_and_priority_are_those_of_the_call(database: str) -> None:
    tasks.send_mail.enqueue("ada")
    tasks.add.using(queue_name="reports", priority=-3).enqueue(1)

    assert_enqueued(tasks.send_mail, queue="mail", priority=10)
    assert_enqueued(tasks.add, queue="reports", priority=-3)
    assert_enqueued(tasks.add.using(queue_name="default"))
    assert_not_enqueued(tasks.add, queue="default")
    assert_not_enqueued(tasks.add, priority=0)


def test_the_number_of_calls_can_be_given(database: str) -> None:
    assert assert_enqueued(tasks.add, count=0) == []
    enqueue_all([tasks.add.bind(1), tasks.add.bind(2), tasks.add.bind(1)])
    assert len(assert_enqueued(tasks.add, count=3)) == 3
    assert len(assert_enqueued(tasks.add, args=[1], count=2)) == 2
    with pytest.raises(AssertionError, match=r"shop\.tasks\.add args=\[1\] is enqueued 2 times, not 1\."):
        assert_enqueued(tasks.add, args=[1], count=1)


def test_what_is_scheduled_or_blocked_counts_and_what_has_run_does_not(database: str) -> None:
    tasks.add.using(run_after=timedelta(days=1)).enqueue(1)
    tasks.charge.enqueue("ada")
    tasks.charge.enqueue("ada")
    tasks.fail.enqueue("x")
    assert_enqueued(tasks.charge, count=2)
    assert [result.task.func for result in enqueued()] == [
        tasks.add.func,
        tasks.charge.func,
        tasks.charge.func,
        tasks.fail.func,
    ]

    run_pending()

    assert_enqueued(tasks.add)
    assert_not_enqueued(tasks.charge)
    assert_not_enqueued(tasks.fail)
    assert [result.args for result in enqueued(tasks.add)] == [[1]]
    assert enqueued(tasks.charge) == []


def test_the_message_lists_what_is_there(database: str) -> None:
    tasks.add.enqueue(1, b=2)
    tasks.send_mail.using(run_after=timedelta(days=1)).enqueue("ada")
    tasks.charge.enqueue("ada")
    tasks.charge.enqueue("ada")

    with pytest.raises(AssertionError) as raised:
        assert_enqueued(tasks.add, args=(1,), kwargs={"b": 3}, queue="mail", priority=5)

    assert str(raised.value).splitlines() == [
        "tests.shop.tasks.add args=[1] kwargs={'b': 3} queue='mail' priority=5 is not enqueued. These are waiting:",
        "  tests.shop.tasks.add args=[1] kwargs={'b': 2} queue='default' priority=0 (ready)",
        "  tests.shop.tasks.send_mail args=['ada'] kwargs={} queue='mail' priority=10 (scheduled)",
        "  tests.shop.tasks.charge args=['ada'] kwargs={} queue='default' priority=0 (ready)",
        "  tests.shop.tasks.charge args=['ada'] kwargs={} queue='default' priority=0 (blocked)",
    ]


def test_the_message_states_that_nothing_is_there(database: str) -> None:
    with pytest.raises(AssertionError) as raised:
        assert_enqueued(tasks.add)
    assert str(raised.value) == "tests.shop.tasks.add is not enqueued. No task is waiting."


def test_the_message_of_the_opposite_assertion_has_the_number(database: str) -> None:
    tasks.add.enqueue(1)
    with pytest.raises(AssertionError, match=r"add queue='default' is enqueued 1 times, not 0\. These are waiting:\n"):
        assert_not_enqueued(tasks.add, queue="default")


def test_a_long_list_and_long_arguments_are_cut(database: str) -> None:
    enqueue_all([tasks.add.bind(number) for number in range(25)])
    tasks.add.using(priority=1).enqueue("x" * 10_000)  # type: ignore[arg-type]
    with pytest.raises(AssertionError) as raised:
        assert_enqueued(tasks.greet, args=["y" * 10_000])
    lines = str(raised.value).splitlines()
    assert len(lines) == 22
    assert lines[-1] == "  and 6 more"
    assert all(len(line) < 400 for line in lines)


def test_a_call_whose_model_instance_is_gone_can_still_be_shown(database: str) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    tasks.anything.enqueue(ada)
    shown = f"shop.Customer:{ada.pk}"
    ada.delete()
    assert_enqueued(tasks.anything)
    assert_not_enqueued(tasks.anything, args=[ada])
    with pytest.raises(AssertionError, match=shown):
        assert_enqueued(tasks.add)


def test_a_path_without_a_task_can_still_be_shown(database: str) -> None:
    tasks.add.enqueue(1)
    Job.objects.using(database).update(task_path="tests.shop.tasks.gone")
    with pytest.raises(AssertionError, match=r"tests\.shop\.tasks\.gone args=\[1\]"):
        assert_enqueued(tasks.add)


def test_a_task_of_another_backend_is_reported_as_such() -> None:
    dummy = {"default": {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"}}
    with override_settings(TASKS=dummy), pytest.raises(ConfigurationError, match="DummyBackend"):
        assert_enqueued(tasks.add)
