"""The background tasks of the bakery: sync and async functions."""

import asyncio
import hashlib
from decimal import Decimal

from django.utils import timezone

from kitchen.models import Order
from kitchen.ovens import Oven, ovens
from steady_queue import task
from steady_queue.concurrency import limits_concurrency


class BurntError(Exception):
    """This loaf cannot be sold."""


@task(queue_name="counter")
def print_label(order: Order) -> None:
    """Sync, with the ORM: runs in a thread. The order is stored by reference and fetched when the task runs."""
    order.labelled_at = timezone.now()
    order.save(update_fields=["labelled_at"])


@task(queue_name="kitchen")
def knead(grams: int) -> str:
    """Sync and CPU-bound."""
    return hashlib.pbkdf2_hmac("sha256", b"flour", b"water", iterations=100 * grams).hex()


@task(queue_name="counter")
async def send_receipt(number: int, total: Decimal) -> str:
    """Async and quick: many of them share the event loop."""
    await asyncio.sleep(0.01)
    return f"Receipt {number}: {total} EUR. Thank you!"


@task(queue_name="kitchen")
async def let_rise(dough: int) -> int:
    """Async, and only waits: a hundred waiting tasks need no thread."""
    await asyncio.sleep(1)
    return dough


@limits_concurrency(key=lambda oven, loaf: oven, to=Oven.ROOM)
@task(queue_name="kitchen")
async def bake(oven: str, loaf: int) -> int:
    """At most two run at a time for each oven; the others wait in the database, not in a worker."""
    with ovens[oven].holding_a_loaf():
        await asyncio.sleep(0.05)
    return loaf


@task(queue_name="kitchen")
async def taste(loaf: int) -> str:
    """Fails for every tenth loaf."""
    if loaf % 10 == 0:
        raise BurntError(f"loaf {loaf} is burnt")
    return "delicious"


@task(queue_name="deliveries")
async def deliver(number: int) -> None:
    """Async, with the ORM, and enqueued with a delay."""
    await Order.objects.filter(number=number).aupdate(delivered_at=timezone.now())
