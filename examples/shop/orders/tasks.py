"""The background tasks of the shop. An order is stored by reference and fetched when its task runs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from django.core.mail import send_mail

from steady_queue import task
from steady_queue.concurrency import limits_concurrency

if TYPE_CHECKING:
    from orders.models import Order


class OutOfStockError(Exception):
    """The item is not in stock."""


@task(queue_name="mail")
def confirm(order: Order) -> str:
    """Sync, with Django's e-mail: runs in a thread."""
    send_mail(f"Thank you for {order}", f"You will get: {order.item}.", None, [order.email])
    return f"mail sent to {order.email}"


@limits_concurrency(key="payment provider", to=1)
@task(queue_name="payments")
async def charge(order: Order) -> str:
    """One runs at a time, as the payment provider requires; the others wait in the database, not in a worker."""
    await asyncio.sleep(1)  # simulates a call to the provider
    return f"payment {order.pk:06}"


@task(queue_name="warehouse")
def pack(order: Order) -> str:
    """Fails for an item that is not in stock."""
    if order.item == "unicorn":
        raise OutOfStockError("no unicorn is left")
    time.sleep(0.2)  # simulates slow work; in a thread it delays no other task
    return "one parcel"


@task(queue_name="mail")
def ask_for_review(order: Order) -> str:
    """Enqueued with a delay, by `run_after`."""
    send_mail(f"How do you like it? ({order})", "Please tell us.", None, [order.email])
    return f"mail sent to {order.email}"
