"""Our worker, or our enqueuer, in a process of its own: `python -m benchmarks.our_worker ORDERS`."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings

from benchmarks.peers.harness import conduct, feed, orders, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from steady_queue.store.drivers.pool import AsyncDriver

#: How often the event loop's lag is looked at, in seconds.
LAG_EVERY = 0.01


class Ours:
    """Steady Queue, embedded as an application would."""

    def __init__(self, given: dict[str, Any]) -> None:
        from benchmarks.tasks import tally

        self.given = given
        self.tally = tally
        self.lags: list[float] = []

    async def prepare(self) -> None:
        """Load everything; the jobs are there already, stored by the one who gives the orders."""
        import_module("steady_queue.aio")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        from steady_queue.aio import running
        from steady_queue.configuration import Options, Worker

        watching = asyncio.create_task(self._watch_loop()) if self.given.get("lag") else None
        async with running(Options(workers=[Worker(**self.given["worker"])])):
            yield
        if watching is not None:
            watching.cancel()

    async def _watch_loop(self) -> None:
        while True:
            due = time.monotonic() + LAG_EVERY
            await asyncio.sleep(LAG_EVERY)
            self.lags.append(max(0.0, time.monotonic() - due))

    def report(self) -> dict[str, Any]:
        return {"lags": self.lags, "starts": self.tally.starts if self.given.get("starts") else []}


async def store(number: int) -> int | None:
    """Enqueue one, and say when it was committed: the call returns later, when others have been notified as well."""
    from benchmarks.tasks import anothing

    await anothing.aenqueue(number)
    return _committed


_committed: int | None = None


def _note_commits() -> None:
    from steady_queue.db import notify

    tell_others = notify.atell

    async def atell(alias: str, driver: AsyncDriver, *, told: bool = False) -> None:
        global _committed
        _committed = time.monotonic_ns()
        await tell_others(alias, driver, told=told)

    notify.atell = atell


async def together(given: dict[str, Any]) -> None:
    """Enqueue from so many coroutines at once; tell when it began and ended."""
    from benchmarks.peers.harness import hear, tell
    from benchmarks.tasks import anothing

    numbers = iter(range(given["first"], given["first"] + given["numbers"]))

    async def share() -> None:
        for number in numbers:
            await anothing.aenqueue(number)

    await anothing.aenqueue(given["warm"])
    tell(ready=True)
    await hear()
    begun = time.monotonic_ns()
    await asyncio.gather(*(share() for _ in range(given["coroutines"])))
    tell(fed=[begun, time.monotonic_ns()])
    await hear()


def main() -> None:
    given = orders()
    settings.DEBUG = given.get("is_debugging", False)
    django.setup()
    import steady_queue
    from steady_queue.db import notify
    from steady_queue.jobs.compat import FRAMEWORK

    if given.get("is_quiet"):
        logging.getLogger(FRAMEWORK).setLevel(logging.WARNING)

    steady_queue.database = given["alias"]
    notify.is_notifying = given.get("notify", True)
    if given["role"] == "feed":
        _note_commits()
        run(feed(store, given["numbers"], given["every"]))
    elif given["role"] == "together":
        run(together(given))
    else:
        run(conduct(Ours(given), given["expected"]))


if __name__ == "__main__":
    main()
