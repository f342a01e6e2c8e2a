"""The seed's "Concurrency controls": each example, blocked and unblocked by real workers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import steady_queue
from steady_queue import actions
from steady_queue.aio import running
from steady_queue.models import Job
from steady_queue.testing import run_pending
from tests.contract import examples
from tests.contract.examples import bundle_action, contact_action, deliver_announcement, my_lonely_task, my_task
from tests.shop.models import Bundle, Contact
from tests.support.databases.tables import count, counts
from tests.support.runtime import in_thread, values, worker

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.contract, pytest.mark.anyio]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "together", examples.Together())


async def enqueued(*calls: tuple[Any, Any]) -> list[Any]:
    """The results of these tasks, each called with its argument, from sync code as in a view."""
    return await in_thread(lambda: [task.enqueue(argument) for task, argument in calls])


def made(model: type[Any], alias: str, **values: Any) -> Callable[[], Any]:
    return lambda: model.objects.using(alias).create(**values)


def test_concurrency_the_parameters(database: str) -> None:
    """`@limits_concurrency(key=, to=, duration=, group=)` above `@task()`; the key gets the task's arguments."""
    for _ in range(3):
        my_task.enqueue(1, arg2=2, more=3)
    my_task.enqueue(1, arg2="other")
    assert counts(database) == {"ready": 3, "blocked": 1}
    keys = set(Job.objects.values_list("concurrency_key", "concurrency_limit"))
    assert keys == {("my group/1/2", 2), ("my group/1/other", 2)}
    assert len(run_pending(raising=True)) == 4
    assert count(database, "semaphore") == 0


def test_concurrency_only_the_key_is_required(database: str) -> None:
    """ "`key` is the only required parameter, and it can be a string"; `to` is 1, `group` the task's own path."""
    my_lonely_task.enqueue()
    my_lonely_task.enqueue()
    assert counts(database) == {"ready": 1, "blocked": 1}
    assert {*Job.objects.values_list("concurrency_key", "concurrency_limit")} == {
        ("tests.contract.examples.my_lonely_task/all", 1)
    }
    assert steady_queue.default_concurrency_control_period == timedelta(minutes=3)
    assert len(run_pending(raising=True)) == 2


async def test_concurrency_at_most_two_announcements_of_an_account(database: str) -> None:
    """`deliver_announcement`: `to=2` for each account."""
    contacts = [await in_thread(made(Contact, database, account_id=account)) for account in (1, 1, 1, 1, 2)]
    results = await enqueued(*((deliver_announcement, contact) for contact in contacts))
    assert await in_thread(counts, database) == {"ready": 3, "blocked": 2}
    async with running(worker(threads=5)):
        assert await values(*results) == [contact.pk for contact in contacts]
    assert await in_thread(count, database, "semaphore") == 0


async def test_concurrency_never_more_at_once_than_the_limit(database: str) -> None:
    """The same under load: of twenty for one account no three ever run together, and none is lost."""
    contact = await in_thread(made(Contact, database, account_id=1))
    results = await enqueued(*[(deliver_announcement, contact)] * 20)
    async with running(worker(threads=10)):
        assert await values(*results) == [contact.pk] * 20
    assert 1 <= examples.together.most <= 2


async def test_concurrency_tasks_of_a_group_wait_for_each_other(database: str) -> None:
    """`contact_action` and `bundle_action`, `group='contact_tasks'`: one of them for contact 123 at a time."""
    contact = await in_thread(made(Contact, database))
    other = await in_thread(made(Contact, database))
    bundle = await in_thread(made(Bundle, database, contact=contact))
    results = await enqueued((contact_action, contact), (bundle_action, bundle), (contact_action, other))
    assert await in_thread(counts, database) == {"ready": 2, "blocked": 1}
    async with running(worker(threads=5)):
        assert await values(*results) == [str(contact), str(bundle), str(other)]
    assert await in_thread(count, database, "semaphore") == 0


def test_concurrency_blocked_tasks_are_unblocked_by_priority_across_queues(database: str) -> None:
    """ "Tasks are unblocked in order of priority but queue order is not taken into account"."""
    contact = made(Contact, database)()
    ids = [
        contact_action.using(priority=priority, queue_name=queue).enqueue(contact).id
        for priority, queue in ((0, "default"), (1, "mail"), (5, "reports"))
    ]
    assert counts(database) == {"ready": 1, "blocked": 2}
    assert [done.id for done in run_pending(queues=["default", "mail", "reports"])] == [ids[0], ids[2], ids[1]]


def test_concurrency_a_retried_task_waits_for_a_slot_like_a_new_one(database: str) -> None:
    """ "Failed tasks that are ... retried work in the same way as new tasks"."""
    contact = made(Contact, database)()
    failed = contact_action.enqueue(contact)
    Contact._default_manager.using(database).filter(pk=contact.pk).delete()
    run_pending()
    assert counts(database) == {"failed": 1}
    contact.save(using=database)
    second = contact_action.enqueue(contact)
    assert actions.retry(failed.id)
    assert counts(database) == {"ready": 1, "blocked": 1}
    assert [done.id for done in run_pending(raising=True)] == [second.id, failed.id]
