"""The tasks that the measured workers run. Each one records its start first."""

from __future__ import annotations

import asyncio

from asgiref.sync import sync_to_async
from django.db import connections

from benchmarks.peers.harness import StartLog
from steady_queue import TaskContext, task

start_log = StartLog()

SLEEP_SECONDS = 5.0
#: The number of queries of a task that uses the ORM.
QUERIES = 10


@task
async def async_noop(number: int) -> None:
    start_log.record(number)


@task
def sync_noop(number: int) -> None:
    start_log.record(number)


@task
async def async_sleep(number: int) -> None:
    start_log.record(number)
    await asyncio.sleep(SLEEP_SECONDS)


@task(takes_context=True)
async def async_progress(context: TaskContext, number: int) -> None:
    start_log.record(number)
    done = 0
    while not context.is_stopping:
        done += 1
        context.progress(done, message=f"task {number}")
        await asyncio.sleep(0.5)


@task
async def async_queries(number: int, seconds: float) -> None:
    start_log.record(number)
    for _ in range(QUERIES):
        await _query(seconds)


@sync_to_async
def _query(seconds: float) -> None:
    """Run one query as Django's async ORM does: in the thread of the task's context, on that thread's connection."""
    with connections["data"].cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)" if seconds else "SELECT %s", [seconds])
