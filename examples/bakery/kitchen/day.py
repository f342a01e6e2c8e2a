"""A day at the bakery: every way to enqueue tasks. `morning` and `afternoon` return the ids of the results."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

from django.db import transaction

from kitchen.models import Order
from kitchen.ovens import ovens
from kitchen.tasks import bake, deliver, knead, let_rise, print_label, send_receipt, taste
from steady_queue import aenqueue_all, enqueue_all

# The morning: before the runtime starts.
ORDERS, EXPRESS, DOUGHS = 120, 20, 40
# The afternoon: while the runtime runs, customers arrive in waves.
WAVES, PAUSE_SECONDS = 10, 0.3
LOAVES = DELIVERIES = ORDERS // WAVES
RISING = RECEIPTS = 2 * LOAVES

IN_TRANSACTIONS, IN_ONE_TRANSACTION = ORDERS, DOUGHS
ONE_BY_ONE, IN_BULK = WAVES * (LOAVES + DELIVERIES), WAVES * (LOAVES + RISING + RECEIPTS)
TASKS = IN_TRANSACTIONS + IN_ONE_TRANSACTION + ONE_BY_ONE + IN_BULK
BURNT = WAVES * LOAVES // 10


class OutOfFlourError(Exception):
    """The order cannot be accepted."""


def morning() -> list[str]:
    """Enqueue from sync code: an order and its task are stored in one transaction."""
    # Many calls, of one or several tasks, in one transaction.
    ids = enqueue_all(knead.bind(grams=500 + 10 * number) for number in range(DOUGHS)).ids

    for number in range(1, ORDERS + 1):
        is_express = number > ORDERS - EXPRESS
        with transaction.atomic():
            order = Order.objects.create(number=number, total=Decimal("3.80") * number)
            ids.append(print_label.using(priority=10 if is_express else 0).enqueue(order).id)

    # This order is rolled back, and so is its task.
    with suppress(OutOfFlourError), transaction.atomic():
        order = Order.objects.create(number=ORDERS + 1, total=Decimal(1))
        print_label.enqueue(order)
        raise OutOfFlourError
    return ids


async def afternoon() -> list[str]:
    """Enqueue from async code, while tasks run."""
    ids = []
    for wave in range(WAVES):
        ids += await serve(range(wave * LOAVES + 1, (wave + 1) * LOAVES + 1))
        await asyncio.sleep(PAUSE_SECONDS)
    return ids


async def serve(numbers: Sequence[int]) -> list[str]:
    """One wave of customers: for each number, a loaf to bake and to taste, an order to deliver, and more."""
    calls = [taste.bind(number) for number in numbers]
    calls += [let_rise.bind(dough) for dough in range(RISING)]
    calls += [send_receipt.bind(number, total=Decimal("3.80")) for number in range(RECEIPTS)]
    ids = (await aenqueue_all(calls)).ids

    for number in numbers:
        oven = list(ovens)[number % len(ovens)]
        ids.append((await bake.aenqueue(oven, loaf=number)).id)

    deliver_later = deliver.using(run_after=timedelta(seconds=1))
    for number in numbers:
        ids.append((await deliver_later.aenqueue(number)).id)
    return ids
