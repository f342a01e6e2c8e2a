"""Tasks that tests enqueue and run."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from steady_queue import fixed, task
from steady_queue.concurrency import limits_concurrency

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from steady_queue.jobs.compat import TaskContext


@task
def add(a: int, b: int = 0) -> int:
    return a + b


@task()
async def greet(name: str, times: int = 1) -> str:
    await asyncio.sleep(0)
    return " ".join([f"Hello, {name}!"] * times)


@task(priority=10, queue_name="mail")
def send_mail(to: str) -> None:
    pass


@task
def anything(*args: Any, **kwargs: Any) -> None:
    pass


@task(takes_context=True)
def with_context(context: TaskContext, value: int = 0) -> str:
    return f"{context.task_result.id} {context.attempt} {value}"


@task
def fail(message: str) -> None:
    raise ValueError(message)


@task(enqueue_on_commit=False)
def at_once() -> None:
    pass


@limits_concurrency(key=lambda account, **kwargs: account)
@task()
def charge(account: int | str, amount: int = 0) -> None:
    pass


@limits_concurrency(key="export", to=2, group="exports")
@task(queue_name="reports")
async def export(name: str) -> None:
    pass


@limits_concurrency(key=lambda account: account, on_conflict="discard")
@task()
def refresh(account: int) -> None:
    pass


@limits_concurrency(key=lambda account: 100 // account)
@task()
def invoice(account: int) -> None:
    pass


@task
async def anoop() -> None:
    pass


@task
def noop() -> None:
    pass


def say_that_it_began() -> None:
    """Print that the task began."""
    sys.stdout.write("began\n")
    sys.stdout.flush()


def block_for_ever() -> None:
    say_that_it_began()
    threading.Event().wait()


@task
def never_ends() -> None:
    block_for_ever()


@task
async def never_ends_async() -> None:
    """It ignores its cancellation."""
    say_that_it_began()
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


@task
async def never_ends_in_another_thread() -> None:
    await asyncio.to_thread(block_for_ever)


@task
async def blocks_the_loop() -> None:
    block_for_ever()


@task
async def exits_in_a_child() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    await asyncio.gather(leave())


@task
async def sleeps_for_long() -> None:
    say_that_it_began()
    await asyncio.sleep(600)


@task
async def never_ends_in_orm_lane() -> None:
    await sync_to_async(block_for_ever)()


@task
async def awaits_file(path: str) -> str:
    """End when the file exists."""
    say_that_it_began()
    while not Path(path).exists():  # noqa: ASYNC110, ASYNC240, the test is another process
        await asyncio.sleep(0.01)
    return "done"


@task
def blocks_until_file(path: str) -> str:
    """The same in a thread."""
    say_that_it_began()
    while not Path(path).exists():
        time.sleep(0.01)
    return "done"


@task(timeout=0.1, max_attempts=2, retry_lost=True, backoff=fixed(0))
def hangs_once(path: str) -> str:
    """Never end in the first attempt."""
    if not Path(path).exists():
        Path(path).touch()
        block_for_ever()
    return "done"


@limits_concurrency(key="one")
@task
def blocks_until_file_alone(path: str) -> str:
    """The same with a concurrency limit."""
    return str(blocks_until_file.func(path))


@task
async def exits(status: int) -> None:
    """End the whole process at once."""
    os._exit(status)


@task
def exits_by(number: int) -> None:
    """End the whole process by a signal."""
    os.kill(os.getpid(), number)
    signal.pause()


def _say_and_run_no_handler(line: Connection) -> None:
    line.send("here")
    sum(itertools.repeat(0))  # endless, and C code that does not look for signals


@task
def forks_and_terminates() -> int | None:
    """The exit status of a child process of its own that received one stop signal, while it could run no handler."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    child = fork.Process(target=_say_and_run_no_handler, args=(theirs,))
    child.start()
    ours.recv()
    child.terminate()
    child.join(20)
    status = child.exitcode
    child.kill()
    return status


@task
def forks_and_terminates_at_once() -> list[int]:
    """The exit statuses of child processes that received one stop signal, as soon as their ids were known."""
    statuses: list[int] = []
    while len(statuses) < 20 and 0 not in statuses:
        statuses.append(_fork_and_terminate())
    return statuses


def _fork_and_terminate() -> int:
    child = os.fork()
    if child == 0:
        time.sleep(10)
        os._exit(0)  # it received no signal
    os.kill(child, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@task
def holds_the_lock(path: str) -> None:
    """Block every other thread of the process, from when the file exists."""
    blocks_until_file.func(path)
    re.match(r"(a+)+$", "a" * 64 + "b")  # takes longer than the universe has existed


@task(takes_context=True, max_attempts=2, backoff=fixed(0), retry_lost=True)
def kills_its_process_once(context: TaskContext) -> int:
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return context.attempt
