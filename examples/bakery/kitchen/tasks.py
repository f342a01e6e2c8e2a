"""What the bakery does in the background: sync and async functions, side by side."""

import asyncio
import hashlib
from collections import Counter
from datetime import timedelta
from decimal import Decimal

from django.utils import timezone

from kitchen.models import Order
from steady_queue import task
from steady_queue.concurrency import limits_concurrency

LOAVES_PER_OVEN = 2

#: How many loaves each oven holds now, and the most it ever held: only for the demo, to see that the limit is kept.
loaves_in: Counter[str] = Counter()
most_loaves_in: Counter[str] = Counter()


class BurntError(Exception):
    """This loaf cannot be sold."""


@task
async def send_receipt(number: int, total: Decimal) -> str:
    """Quick and async: many of these share the event loop."""
    await asyncio.sleep(0)
    return f"Order {number}: {total} EUR. Thank you!"


@task
def print_label(order: Order) -> None:
    """Sync, with the ORM: runs in a thread. The order is stored by reference, and fetched when the task runs."""
    order.labelled_at = timezone.now()
    order.save(update_fields=["labelled_at"])


@task
def knead(grams: int) -> str:
    """Sync, and heavy on the processor."""
    return hashlib.pbkdf2_hmac("sha256", b"flour", b"water", iterations=100 * grams).hex()


@task
async def let_rise(loaf: int, time: timedelta) -> int:
    """Async, and all it does is wait: a hundred that wait cost no thread."""
    await asyncio.sleep(time.total_seconds())
    return loaf


@limits_concurrency(key=lambda oven, loaf: oven, to=LOAVES_PER_OVEN)
@task
async def bake(oven: str, loaf: int) -> int:
    """At most two at a time in the same oven; the others wait in the database, not in a worker."""
    loaves_in[oven] += 1
    most_loaves_in[oven] = max(most_loaves_in[oven], loaves_in[oven])
    try:
        await asyncio.sleep(0.03)
    finally:
        loaves_in[oven] -= 1
    return loaf


@task
async def taste(loaf: int) -> str:
    """Fails for every tenth loaf."""
    if loaf % 10 == 0:
        raise BurntError(f"loaf {loaf} is burnt")
    return "delicious"


@task(queue_name="deliveries")
async def deliver(order: Order) -> str:
    """Enqueued for later."""
    return f"{order} is delivered"
