"""Tasks that tests run again in the foreground."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone, translation

from steady_queue import Snooze, task
from steady_queue.db.aliases import queue_alias
from tests.shop.models import Customer
from tests.shop.tasks import add

if TYPE_CHECKING:
    from steady_queue import TaskContext


@task
def where_am_i() -> list[str]:
    return [translation.get_language() or "", timezone.get_current_timezone_name()]


@task
def adds_customer(name: str) -> str:
    Customer.objects.using(queue_alias()).create(name=name)
    add.enqueue(1)
    return name


@task
async def adds_customer_async(name: str) -> str:
    await Customer.objects.using(queue_alias()).acreate(name=name)
    await add.aenqueue(1)
    return name


@task(takes_context=True)
def with_attempt(context: TaskContext, value: int) -> list[object]:
    return [context.attempt, context.task_result.id, value]


@task
def greets(customer: Customer, tier: Customer.Tier) -> str:
    return f"{customer.name} {tier.value}"


@task(takes_context=True)
def completes_itself(context: TaskContext, name: str) -> None:
    with context.completing(name):
        Customer.objects.using(queue_alias()).create(name=name)


@task(takes_context=True)
def reports(context: TaskContext) -> object:
    context.progress(1, 4, "begins")
    context.log("first line")
    context.checkpoint({"at": 1})
    context.metadata["seen"] = True
    context.save_metadata()
    return [context.saved, context.is_stopping, context.is_cancelled]


@task
def snoozes() -> None:
    raise Snooze("not yet", after=60)


@task
def returns_what_cannot_be_stored() -> object:
    return object()
