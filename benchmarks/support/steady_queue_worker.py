"""The worker process of Steady Queue, or a process that enqueues with it.

The benchmarks start it as `python -m benchmarks.support.steady_queue_worker OPTIONS`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings

from benchmarks.peers.harness import enqueue_steadily, read_options, receive, run, run_worker, send

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from steady_queue.store.drivers.pool import AsyncDriver

#: The interval at which the lag of the event loop is measured.
LAG_INTERVAL_SECONDS = 0.01


class SteadyQueueWorker:
    """The worker, embedded as an application would embed it."""

    def __init__(self, options: dict[str, Any]) -> None:
        from benchmarks.tasks import start_log

        self.options = options
        self.start_log = start_log
        self.lags: list[float] = []

    async def prepare(self) -> None:
        """Import the worker. The benchmark has stored the jobs."""
        import_module("steady_queue.aio")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        from steady_queue.aio import running
        from steady_queue.configuration import Options, Worker

        watching = asyncio.create_task(self._measure_lag()) if self.options.get("lag") else None
        async with running(Options(workers=[Worker(**self.options["worker"])])):
            yield
        if watching is not None:
            watching.cancel()

    async def _measure_lag(self) -> None:
        while True:
            due = time.monotonic() + LAG_INTERVAL_SECONDS
            await asyncio.sleep(LAG_INTERVAL_SECONDS)
            self.lags.append(max(0.0, time.monotonic() - due))

    def report(self) -> dict[str, Any]:
        return {"lags": self.lags, "starts": self.start_log.starts if self.options.get("starts") else []}


async def store(number: int) -> int | None:
    """Enqueue one job, and return the time of its commit: `aenqueue` returns later, after the NOTIFY."""
    from benchmarks.tasks import async_noop

    await async_noop.aenqueue(number)
    return _committed


_committed: int | None = None


def _record_commits() -> None:
    from steady_queue.db import notify

    awake_workers = notify.awake_workers

    async def record_and_wake(alias: str, driver: AsyncDriver, *, notified: bool = False) -> None:
        global _committed
        _committed = time.monotonic_ns()
        await awake_workers(alias, driver, notified=notified)

    notify.awake_workers = record_and_wake


async def enqueue_concurrently(options: dict[str, Any]) -> None:
    """Enqueue from several coroutines at once, and send the times of the start and of the end."""
    from benchmarks.tasks import async_noop

    numbers = iter(range(options["first"], options["first"] + options["jobs"]))

    async def enqueue_next() -> None:
        for number in numbers:
            await async_noop.aenqueue(number)

    await async_noop.aenqueue(options["warm_up"])
    send(ready=True)
    await receive()
    started = time.monotonic_ns()
    await asyncio.gather(*(enqueue_next() for _ in range(options["coroutines"])))
    send(enqueued=[started, time.monotonic_ns()])
    await receive()


def main() -> None:
    options = read_options()
    settings.DEBUG = options.get("is_debugging", False)
    django.setup()
    import steady_queue
    from steady_queue.jobs.compat import FRAMEWORK

    if options.get("is_quiet"):
        logging.getLogger(FRAMEWORK).setLevel(logging.WARNING)

    steady_queue.database = options["alias"]
    steady_queue.notify = options.get("notify", True)
    if options["role"] == "enqueue":
        _record_commits()
        run(enqueue_steadily(store, options["jobs"], options["interval_seconds"]))
    elif options["role"] == "enqueue_concurrently":
        run(enqueue_concurrently(options))
    else:
        run(run_worker(SteadyQueueWorker(options), options["expected"]))


if __name__ == "__main__":
    main()
