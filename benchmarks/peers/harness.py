"""The worker's end of a measurement: it reads options and commands, and reports what it did, in lines of JSON.

This module imports only the standard library, because it is also imported in environments that have only a peer
installed. All times are from CLOCK_MONOTONIC, which all processes of a machine share. The messages, in their order:

    <- {"ready": ...}     the worker is connected and its jobs are stored
    -> "go"               start the worker
    <- {"started": ...}   all expected tasks have started; only if the options have a number of expected tasks
    -> "report"           as often as the benchmark needs a report
    <- {"report": ...}
    -> "stop"             or end of file: stop the worker and exit
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager


class StartLog:
    """Records which tasks have started, and when. A task, in any thread, pays only for appending to a list."""

    #: How often to check whether all expected tasks have started.
    check_seconds = 0.002

    def __init__(self) -> None:
        self.starts: list[tuple[int, int]] = []

    def record(self, number: int) -> None:
        self.starts.append((number, time.monotonic_ns()))

    def __len__(self) -> int:
        return len(self.starts)

    def summarize(self) -> dict[str, int]:
        """The number of runs, the number of different tasks, and the time of the first start."""
        numbers = {number for number, _ in self.starts}
        return {"runs": len(self.starts), "tasks": len(numbers), "first": min((at for _, at in self.starts), default=0)}


class FileStartLog(StartLog):
    """The same for a peer that forks: its processes append to one file. A short append is atomic."""

    #: Each check reads the whole file; a run of these peers takes seconds.
    check_seconds = 0.02

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR)

    def record(self, number: int) -> None:
        os.write(self._file, b"%d %d\n" % (number, time.monotonic_ns()))

    def __len__(self) -> int:
        with open(self.path, "rb") as file:
            self.starts = [(int(number), int(at)) for number, at in map(bytes.split, file)]
        return len(self.starts)


class Worker(Protocol):
    """The worker of one queue."""

    start_log: StartLog

    async def prepare(self) -> None:
        """Connect, create the schema, store the jobs: everything that is not measured."""

    def running(self) -> AbstractAsyncContextManager[Any]:
        """Run the worker until the block ends."""

    def report(self) -> dict[str, Any]:
        """The fields that only this worker adds to its report."""


def read_options() -> dict[str, Any]:
    """The options with which the benchmark has started this process."""
    options: dict[str, Any] = json.loads(sys.argv[1])
    return options


def send(**message: Any) -> None:
    sys.__stdout__.write(json.dumps(message) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


async def receive() -> str:
    """The next command, or "stop" if the benchmark has closed the pipe."""
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.strip() or "stop"


async def run_worker(worker: Worker, expected: int) -> None:
    """Run the worker as the benchmark commands, until the command "stop"."""
    await worker.prepare()
    send(ready=os.getpid())
    if await receive() != "go":
        return
    cpu = time.process_time()
    async with worker.running():
        watching = asyncio.create_task(_report_starts(worker.start_log, expected)) if expected else None
        while await receive() == "report":
            send(report={**_measure_usage(cpu), **worker.start_log.summarize(), **worker.report()})
        if watching is not None:
            watching.cancel()


async def _report_starts(start_log: StartLog, expected: int) -> None:
    # Polling, because each task would have to set an event across threads, and across processes.
    while len(start_log) < expected:  # noqa: ASYNC110
        await asyncio.sleep(start_log.check_seconds)
    send(started=start_log.summarize())


async def exit_on_error(work: Awaitable[object]) -> None:
    """Exit the process if the work raises: otherwise the benchmark would wait for tasks that never start."""
    try:
        await work
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _measure_usage(cpu: float) -> dict[str, Any]:
    """The CPU seconds since the start, and the maximum of the resident memory in bytes."""
    return {"cpu": time.process_time() - cpu, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


async def enqueue_steadily(store: Callable[[int], Awaitable[int | None]], jobs: int, interval_seconds: float) -> None:
    """Store one job after another at a steady rate, and send the time of each commit.

    `store` returns the time of the commit if that is earlier than the time at which `store` returns.
    """
    send(ready=os.getpid())
    if await receive() != "go":
        return
    committed = []
    started = time.monotonic()
    for number in range(jobs):
        await asyncio.sleep(max(0.0, started + number * interval_seconds - time.monotonic()))
        instant = await store(number)
        committed.append((number, instant or time.monotonic_ns()))
    send(enqueued=committed)
    await receive()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop if it is installed, so that all systems use the same event loop."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
