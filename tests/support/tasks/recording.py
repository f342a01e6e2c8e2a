"""Tasks that tests of the runtime run, and the record of their runs."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.utils import timezone, translation

from steady_queue import task
from steady_queue.concurrency import limits_concurrency

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskContext


#: The counts that a task has entered, which are no longer those of the record if the task outlives its test.
_running: contextvars.ContextVar[Counter[str]] = contextvars.ContextVar("_running")


class TaskRecord:
    """Which tasks began, run and ran. The gates stay closed until the test opens them."""

    def __init__(self) -> None:
        self.began: list[Any] = []
        self.runs: Counter[Any] = Counter()
        self.running: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self.gate = threading.Event()
        self.other_gate = threading.Event()
        self.wake_event = asyncio.Event()
        self._lock = threading.Lock()

    def enter(self, lane: str, name: Any) -> None:
        with self._lock:
            self.began.append(name)
            self.runs[name] += 1
            _running.set(self.running)
            self.running[lane] += 1
            self.peak[lane] = max(self.peak[lane], self.running[lane])

    def leave(self, lane: str) -> None:
        with self._lock:
            _running.get()[lane] -= 1

    def clear(self) -> None:
        self.gate.set()
        self.other_gate.set()
        self.__init__()  # type: ignore[misc]


task_record = TaskRecord()
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@task
async def awaits(name: Any) -> Any:
    """Record the start, and end when the gate is open."""
    gate = task_record.gate
    task_record.enter("async", name)
    try:
        while not gate.is_set():  # noqa: ASYNC110, sync tasks wait at the same gate
            await asyncio.sleep(0.005)
    finally:
        task_record.leave("async")
    return name


@task
async def awaits_event(name: Any) -> Any:
    """The same until the event is set: thousands of tasks can wait for it without keeping the loop busy."""
    event = task_record.wake_event
    task_record.enter("async", name)
    try:
        await event.wait()
    finally:
        task_record.leave("async")
    return name


@task
async def awaits_other(name: Any) -> Any:
    """The same at another gate."""
    gate = task_record.other_gate
    task_record.enter("async", name)
    try:
        while not gate.is_set():  # noqa: ASYNC110, as above
            await asyncio.sleep(0.005)
    finally:
        task_record.leave("async")
    return name


@task
def blocks(name: Any) -> Any:
    """The same in a thread."""
    gate = task_record.gate
    task_record.enter("thread", name)
    gate.wait(30)
    task_record.leave("thread")
    return name


@task
async def awaits_thread(name: Any) -> None:
    """An async task that waits for a blocked ORM thread."""
    gate = task_record.gate

    def block() -> None:
        task_record.enter("behind", name)
        gate.wait(30)
        task_record.leave("behind")

    try:
        await sync_to_async(block)()
    except asyncio.CancelledError:
        task_record.runs["asked to stop"] += 1
        raise


@task
async def awaits_thread_in_child(name: Any) -> None:
    """The same in child tasks."""
    await asyncio.gather(awaits_thread.func(name), asyncio.sleep(0))


@task
async def rests(name: Any) -> Any:
    task_record.enter("async", name)
    await asyncio.sleep(0.02)
    task_record.leave("async")
    return name


@task
async def sleeps(seconds: float, name: Any) -> Any:
    task_record.enter("async", name)
    try:
        await asyncio.sleep(seconds)
    finally:
        task_record.leave("async")
    return name


@task
def works(name: Any) -> Any:
    task_record.enter("thread", name)
    time.sleep(0.02)
    task_record.leave("thread")
    return name


@task
def notes(name: Any) -> None:
    """Record the run only."""
    task_record.enter("thread", name)
    task_record.leave("thread")


@limits_concurrency(key="one at a time")
@task()
async def alone(name: Any) -> Any:
    task_record.enter("alone", name)
    await asyncio.sleep(0.005)
    task_record.leave("alone")
    return name


@limits_concurrency(key="one thread at a time")
@task()
def alone_in_thread(name: Any) -> Any:
    gate = task_record.gate
    task_record.enter("alone", name)
    gate.wait(30)
    task_record.leave("alone")
    return name


@limits_concurrency(key="a moment", duration=timedelta(milliseconds=1), on_overrun="release")
@task()
async def alone_for_a_moment(name: Any) -> Any:
    """Another may start soon, while it runs."""
    return await awaits.func(name)


@limits_concurrency(key="a moment", duration=timedelta(milliseconds=1), on_overrun="release")
@task()
def alone_for_a_moment_in_thread(name: Any) -> Any:
    return blocks.func(name)


@limits_concurrency(key="one or none", on_conflict="discard")
@task()
async def alone_or_discarded(name: Any) -> Any:
    return await awaits.func(name)


@limits_concurrency(key=lambda name: 1 // name)
@task()
async def has_a_bad_key(name: Any) -> Any:
    pass


@limits_concurrency(key="one at a time")
@task()
async def alone_until_open(name: Any) -> Any:
    return await awaits.func(name)


@task(takes_context=True)
async def returns_context(context: TaskContext, value: int) -> list[Any]:
    return [context.task_result.id, context.attempt, value]


@task(takes_context=True)
def returns_context_in_thread(context: TaskContext, value: int) -> list[Any]:
    return [context.task_result.id, context.attempt, value]


@task
async def returns_locale() -> list[str]:
    return [translation.get_language(), timezone.get_current_timezone_name()]


@task
def returns_locale_in_thread() -> list[str]:
    return [translation.get_language(), timezone.get_current_timezone_name()]


@task
async def changes_context(value: str) -> str:
    before = variable.get()
    variable.set(value)
    translation.activate("fr")
    timezone.activate("Asia/Kathmandu")
    return before


@task
def changes_context_in_thread(value: str) -> str:
    before = variable.get()
    variable.set(value)
    translation.activate("fr")
    timezone.activate("Asia/Kathmandu")
    return before
