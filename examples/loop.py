"""A worker in a hundred lines: move what is due, claim what can start, run it, settle what has ended.

It stands in for the runtime, which is not there yet, and shows how the store is used. A real worker also beats, waits
out a database that is away, hands over the context a task asks for, and hands back what it has not started at its end.
"""

from __future__ import annotations

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from traceback import format_exception
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections

from steady_queue.arguments import aloads, dump_result, loads
from steady_queue.databases import open_async
from steady_queue.registry import registry
from steady_queue.store.claim import Wanted, claim
from steady_queue.store.dispatch import dispatch
from steady_queue.store.job import Lane
from steady_queue.store.outcome import ErrorReport, Failed, Finished, Verdict
from steady_queue.store.process import NewProcess, deregister, register
from steady_queue.store.settle import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Outcome

POLL_SECONDS = 0.02


class Worker:
    """Runs async tasks in the event loop and sync ones in threads, so many of each at once."""

    def __init__(self, *, tasks: int = 100, threads: int = 4) -> None:
        self.process = NewProcess(uuid4(), "worker", f"worker-{os.getpid()}", os.getpid(), socket.gethostname())
        self.free = {Lane.ASYNC: tasks, Lane.THREAD: threads}
        self.threads = ThreadPoolExecutor(threads)
        self.ended: list[Outcome] = []
        self.woken = asyncio.Event()
        self.settled = 0

    async def run(self, alias: str, *, until: Callable[[], bool]) -> None:
        """Work on the queue in this database until there is nothing left to wait for."""
        driver = open_async(alias)
        try:
            await driver.run(register(driver.sql, self.process))
            async with asyncio.TaskGroup() as running:
                while not until():
                    self.woken.clear()
                    await driver.run(dispatch(driver.sql, 100))
                    for claimed in await self.claim(driver):
                        running.create_task(self.execute(claimed))
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.woken.wait(), POLL_SECONDS)
                    await self.settle(driver)
            await driver.run(deregister(driver.sql, self.process.id))
        finally:
            self.threads.shutdown()
            await driver.close()
            await sync_to_async(connections.close_all)()  # of the thread that async tasks use the ORM in

    async def claim(self, driver: AsyncDriver) -> list[Claim]:
        """Take as many jobs as there are free slots, and never more."""
        claims: list[Claim] = []
        for lane, free in self.free.items():
            if free:
                taken = await driver.run(claim(driver.sql, Wanted(self.process.id, lane, free)))
                self.free[lane] -= len(taken)
                claims += taken
        return claims

    async def execute(self, claimed: Claim) -> None:
        """Run one job. Whatever goes wrong on the way is its outcome."""
        try:
            task = registry.resolve(claimed.task_path)
            if claimed.lane == Lane.ASYNC:
                args, kwargs = await aloads(claimed.arguments)
                value = await task.func(*args, **kwargs)
            else:
                loop = asyncio.get_running_loop()
                value = await loop.run_in_executor(self.threads, _call, task.func, claimed.arguments)
            self.ended.append(Finished(claimed, None if value is None else dump_result(value)))
        except Exception as error:
            self.ended.append(Failed(claimed, _report(error)))
        self.free[Lane(claimed.lane)] += 1
        self.woken.set()

    async def settle(self, driver: AsyncDriver) -> None:
        """Write all that has ended since the last time, in one transaction."""
        if not self.ended:
            return
        outcomes, self.ended = self.ended, []
        settlement = await driver.run(settle(driver.sql, outcomes, worker_id=self.process.name))
        self.settled += sum(verdict is Verdict.APPLIED for verdict in settlement.verdicts.values())


def _call(function: Callable[..., Any], arguments: str) -> Any:
    try:
        args, kwargs = loads(arguments)
        return function(*args, **kwargs)
    finally:
        close_old_connections()


def _report(error: Exception) -> ErrorReport:
    path = f"{type(error).__module__}.{type(error).__qualname__}"
    return ErrorReport(path, str(error), "".join(format_exception(error)))
