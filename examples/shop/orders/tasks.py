"""What the shop does in the background. Each task gets its order by reference, and fetches it when it runs."""

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
    """There is none of it."""


@task(queue_name="mail")
def confirm(order: Order) -> str:
    """Sync, with Django's e-mail: runs in a thread."""
    send_mail(f"Thank you for {order}", f"You will get: {order.item}.", None, [order.email])
    return f"mail sent to {order.email}"


@limits_concurrency(key="payment provider", to=1)
@task(queue_name="payments")
async def charge(order: Order) -> str:
    """One at a time, as the payment provider wants it; the others wait in the database, not in a worker."""
    await asyncio.sleep(1)  # stands for a call to the provider
    return f"payment {order.pk:06}"


@task(queue_name="warehouse")
def pack(order: Order) -> str:
    """Fails for what is not in stock."""
    if order.item == "unicorn":
        raise OutOfStockError("no unicorn is left")
    time.sleep(0.2)  # stands for slow work; in a thread it holds nobody up
    return "one parcel"


@task(queue_name="mail")
def ask_for_review(order: Order) -> str:
    """Enqueued for later, with `run_after`."""
    send_mail(f"How do you like it? ({order})", "Please tell us.", None, [order.email])
    return f"mail sent to {order.email}"
