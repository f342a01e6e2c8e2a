"""A transactional task. It is outside the installed apps, where a system check would find it."""

from __future__ import annotations

from contextlib import suppress

from django.db import connections

from steady_queue import task
from steady_queue.db.aliases import queue_alias
from tests.shop.models import Customer


@task
def commits(name: str, how: str) -> None:
    """Write, and commit: with a statement, whose refusal is caught, or on the connection of the driver."""
    Customer.objects.using(queue_alias()).create(name=name)
    connection = connections[queue_alias()]
    if how == "statement":
        with suppress(Exception), connection.cursor() as cursor:
            cursor.execute("-- a comment\nCOMMIT;")
    else:
        connection.connection.commit()
        connection.connection.cursor().execute("BEGIN")


@task(transactional=True)
def commits_transactionally(name: str, how: str) -> None:
    commits.func(name, how)


@task(transactional=True)
def adds_customer_transactionally(name: str) -> str:
    Customer.objects.using(queue_alias()).create(name=name)
    return name
