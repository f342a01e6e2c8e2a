"""A transactional task. It is outside the installed apps, where a system check would find it."""

from __future__ import annotations

from steady_queue import task
from steady_queue.db.aliases import queue_alias
from tests.shop.models import Customer


@task(transactional=True)
def adds_customer_transactionally(name: str) -> str:
    Customer.objects.using(queue_alias()).create(name=name)
    return name
