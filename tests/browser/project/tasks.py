"""Tasks of every kind for the pages to show."""

from __future__ import annotations

import asyncio
import threading

from steady_queue import TaskContext, fixed, task
from steady_queue.concurrency import limits_concurrency

LONG_SECONDS = 3600.0


@task
def quick(name: str = "") -> str:
    return f"done: {name}"


@task(queue_name="mail")
async def fails(name: str, message: str = "the mail server refused the message") -> None:
    raise ConnectionError(message)


@task(queue_name="mail", max_attempts=5, backoff=fixed(LONG_SECONDS))
def is_retried(name: str) -> None:
    raise TimeoutError("no answer within 10 seconds")


@task(queue_name="mail", max_attempts=2, backoff=fixed(0))
def gives_up(name: str) -> None:
    raise TimeoutError("no answer within 10 seconds")


@task
def fails_unless(name: str, is_valid: bool) -> str:
    """Fails until it is retried with other arguments."""
    if not is_valid:
        raise ValueError("is_valid must be True")
    return f"done: {name}"


@task(takes_context=True)
async def runs_long(context: TaskContext, name: str) -> None:
    """Runs until it is cancelled, with progress and a log."""
    context.log(f"{name} begins")
    context.progress(40, 100, "row 40")
    await asyncio.sleep(LONG_SECONDS)


@task(takes_context=True)
def waits_in_thread(context: TaskContext, name: str) -> None:
    """Runs in a thread until it is cancelled."""
    while not context.is_cancelled:
        threading.Event().wait(0.05)
    context.raise_if_cancelled()


@limits_concurrency(key="payment provider", to=1)
@task(queue_name="queue_1")
async def one_at_a_time(name: str) -> None:
    await asyncio.sleep(LONG_SECONDS)


@task
def pays(amount: int, card_token: str) -> str:
    return f"paid {amount}"
