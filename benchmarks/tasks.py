"""The tasks that are run. Each counts itself first of all."""

from __future__ import annotations

import asyncio

from asgiref.sync import sync_to_async
from django.db import connections

from benchmarks.peers.harness import Tally
from steady_queue import task

tally = Tally()

#: What a task that only waits waits, in seconds.
SLEEP = 5.0
#: Queries of a task that uses the ORM.
QUERIES = 10


@task
async def anothing(number: int) -> None:
    tally.count(number)


@task
def nothing(number: int) -> None:
    tally.count(number)


@task
async def asleep(number: int) -> None:
    tally.count(number)
    await asyncio.sleep(SLEEP)


@task
async def queries(number: int, seconds: float) -> None:
    tally.count(number)
    for _ in range(QUERIES):
        await _query(seconds)


@sync_to_async
def _query(seconds: float) -> None:
    """One query as Django's async ORM makes it: in the thread of the task's context, on its connection there."""
    with connections["data"].cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)" if seconds else "SELECT %s", [seconds])
