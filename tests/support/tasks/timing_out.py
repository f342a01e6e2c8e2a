"""Tasks that run longer than their timeout, in each lane."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from steady_queue import fixed, task
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from datetime import datetime

    from steady_queue.jobs.running.context import TaskContext


@task(timeout=0.05)
async def awaits_for_ever() -> None:
    await _await_an_event()


async def _await_an_event() -> None:
    await asyncio.Event().wait()


@task(timeout=60)
async def reads_deadline(value: int = 0) -> int:
    return value


@task
async def returns_late() -> str:
    """Return a value although it was cancelled."""
    with suppress(asyncio.CancelledError):
        await _await_an_event()
    return "late"


@task
async def raises_late() -> None:
    """Raise something else although it was cancelled."""
    try:
        await _await_an_event()
    except asyncio.CancelledError:
        raise LookupError("while it stopped") from None


@task
async def stops_slowly() -> None:
    """Stop when the gate is open."""
    gate = task_record.gate
    try:
        await _await_an_event()
    finally:
        task_record.enter("async", "stops")
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.005)


@task
async def awaits_thread() -> None:
    """Wait for an ORM thread that ends when the gate is open."""
    gate = task_record.gate

    def block_in_orm_thread() -> None:
        task_record.enter("behind", "thread")
        gate.wait(30)
        task_record.leave("behind")

    await sync_to_async(block_in_orm_thread)()


@task(takes_context=True)
def stops_itself(context: TaskContext) -> None:
    """Look at the time until it is over."""
    _wait_until_timed_out(context)


def _wait_until_timed_out(context: TaskContext) -> None:
    while context.remaining():
        threading.Event().wait(0.01)
    context.raise_if_timed_out()


@task(timeout=0.05, max_attempts=2, backoff=fixed(0))
async def tries_twice() -> None:
    await _await_an_event()


@task(timeout=0.05, max_attempts=2, backoff=fixed(0), takes_context=True)
def tries_twice_in_thread(context: TaskContext) -> None:
    _wait_until_timed_out(context)


@task(takes_context=True)
def returns_times(context: TaskContext) -> list[Any]:
    return _times(context)


@task(takes_context=True)
async def returns_times_async(context: TaskContext) -> list[Any]:
    return _times(context)


def _times(context: TaskContext) -> list[Any]:
    context.raise_if_timed_out()
    deadline: datetime | None = context.deadline
    return [None if deadline is None else deadline.isoformat(), context.remaining()]
