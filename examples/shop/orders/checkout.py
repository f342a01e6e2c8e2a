"""Stores an order and its tasks in one transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction

from orders.tasks import ask_for_review, charge, confirm, pack

if TYPE_CHECKING:
    from orders.models import Order

REVIEW_AFTER = timedelta(seconds=5)


def place(order: Order) -> None:
    """Store the order with all its tasks. If anything fails here, neither the order nor its tasks are stored."""
    needed = (confirm, charge, pack, ask_for_review.using(run_after=REVIEW_AFTER))
    with transaction.atomic():
        order.save()
        for task in needed:
            order.steps.create(task_name=task.name, result_id=task.enqueue(order).id)
