"""A day at the bakery: each way to enqueue tasks. Both halves return the ids of the results."""

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

from django.db import transaction

from kitchen.models import Order
from kitchen.tasks import bake, deliver, knead, let_rise, print_label, send_receipt, taste
from steady_queue import aenqueue_all, enqueue_all

ORDERS, EXPRESS, RECEIPTS, DOUGHS, LOAVES, DELIVERIES = 40, 8, 200, 60, 60, 5
OVENS = ("brick", "deck", "steam")
BURNT = LOAVES // 10
TASKS = ORDERS + RECEIPTS + DOUGHS + 3 * LOAVES + DELIVERIES


class OutOfFlourError(Exception):
    """The order cannot be taken after all."""


def morning() -> list[str]:
    """From sync code: the task of an order is stored with it, in the same transaction."""
    ids = []
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

    # Many calls, of one task or of several, in one transaction.
    receipts = [send_receipt.bind(number, total=Decimal("3.80") * number) for number in range(RECEIPTS)]
    doughs = [knead.bind(grams=500 + 10 * number) for number in range(DOUGHS)]
    return ids + enqueue_all([*receipts, *doughs]).ids


async def afternoon() -> list[str]:
    """From async code, while the morning's tasks are running."""
    ids = []
    for loaf in range(1, LOAVES + 1):
        rising = await let_rise.aenqueue(loaf, timedelta(milliseconds=5 * loaf))
        baking = await bake.aenqueue(OVENS[loaf % len(OVENS)], loaf)
        ids += [rising.id, baking.id]
    ids += (await aenqueue_all(taste.bind(loaf) for loaf in range(1, LOAVES + 1))).ids
    async for order in Order.objects.order_by("number")[:DELIVERIES]:
        delivery = await deliver.using(run_after=timedelta(seconds=1)).aenqueue(order)
        ids.append(delivery.id)
    return ids
