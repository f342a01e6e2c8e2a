"""One side's process: it is told what to do, does it, and tells what it did, in lines of JSON.

It needs nothing but Python: it is also imported where only a peer is installed. The clock is CLOCK_MONOTONIC, which
all processes of a machine share.

    <- {"ready": ...}     connected, and its jobs are stored
    -> "go"               the worker starts
    <- {"ran": ...}       all of its tasks have started, if it was told how many to expect
    -> "report"           as often as one likes
    <- {"report": ...}
    -> "stop"             or the end of the input: the worker is stopped and the process ends
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


class Tally:
    """Which tasks have started, and when. Appending to a list is all that a task may cost, in any thread."""

    #: How often to look whether all of them have, in seconds.
    look_every = 0.002

    def __init__(self) -> None:
        self.starts: list[tuple[int, int]] = []

    def count(self, number: int) -> None:
        self.starts.append((number, time.monotonic_ns()))

    def __len__(self) -> int:
        return len(self.starts)

    def summary(self) -> dict[str, int]:
        """How many runs there were, of how many tasks, and when the first one began."""
        numbers = {number for number, _ in self.starts}
        return {"runs": len(self.starts), "tasks": len(numbers), "first": min((at for _, at in self.starts), default=0)}


class FileTally(Tally):
    """The same for a peer that forks: its processes append to one file. A short append is never torn."""

    #: Each look reads the whole file; these peers take seconds.
    look_every = 0.02

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR)

    def count(self, number: int) -> None:
        os.write(self._file, b"%d %d\n" % (number, time.monotonic_ns()))

    def __len__(self) -> int:
        with open(self.path, "rb") as file:
            self.starts = [(int(number), int(at)) for number, at in map(bytes.split, file)]
        return len(self.starts)


class Side(Protocol):
    """One queue, as its worker process uses it."""

    tally: Tally

    async def prepare(self) -> None:
        """Connect, make the schema, store the jobs: everything that is not measured."""

    def running(self) -> AbstractAsyncContextManager[Any]:
        """The worker, for the length of the block."""

    def report(self) -> dict[str, Any]:
        """What this side alone can tell."""


def orders() -> dict[str, Any]:
    """What this process was told at its start."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def tell(**what: Any) -> None:
    sys.__stdout__.write(json.dumps(what) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


async def hear() -> str:
    """The next word, or "stop" when there is nobody left to say one."""
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.strip() or "stop"


async def conduct(side: Side, expected: int) -> None:
    """Work as told until told to stop."""
    await side.prepare()
    tell(ready=os.getpid())
    if await hear() != "go":
        return
    cpu = time.process_time()
    async with side.running():
        watching = asyncio.create_task(_watch(side.tally, expected)) if expected else None
        while await hear() == "report":
            tell(report={**_usage(cpu), **side.tally.summary(), **side.report()})
        if watching is not None:
            watching.cancel()


async def _watch(tally: Tally, expected: int) -> None:
    # An event that tasks set would have to be set across threads, and processes, by each of them.
    while len(tally) < expected:  # noqa: ASYNC110
        await asyncio.sleep(tally.look_every)
    tell(ran=tally.summary())


async def unfailing(work: Awaitable[object]) -> None:
    """Work whose error ends the process at once: otherwise everybody would wait for tasks that never come."""
    try:
        await work
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _usage(cpu: float) -> dict[str, Any]:
    """CPU seconds since the start, and the most memory that was resident, in bytes."""
    return {"cpu": time.process_time() - cpu, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


async def feed(store: Callable[[int], Awaitable[int | None]], numbers: int, every: float) -> None:
    """Store one job after another at a steady pace; tell when each was committed.

    `store` returns that instant where it is not the one at which it returns.
    """
    tell(ready=os.getpid())
    if await hear() != "go":
        return
    committed = []
    begun = time.monotonic()
    for number in range(numbers):
        await asyncio.sleep(max(0.0, begun + number * every - time.monotonic()))
        instant = await store(number)
        committed.append((number, instant or time.monotonic_ns()))
    tell(fed=committed)
    await hear()


def run(main: Coroutine[Any, Any, None]) -> None:
    """On uvloop if it is installed: on the same loop for all sides."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
