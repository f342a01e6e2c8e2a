"""Async connections that belong to the running event loop and are closed with it.

An async generator holds them: `asyncio.run` and most servers close async generators with `shutdown_asyncgens`, so that
a script that ends after `asyncio.run(task.aenqueue())` leaves no connection open. Other programs only close the loop
(the `asgi` worker of gunicorn, for example), or not even that. Their connections are abandoned when the interpreter
exits: later, asyncpg and aiomysql would write tracebacks.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from asgiref.sync import AsyncToSync

from steady_queue.db.aliases import is_in_memory, open_async

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from steady_queue.store.drivers.pool import AsyncDriver, Pool

_Loop = asyncio.AbstractEventLoop


class LoopDriver(NamedTuple):
    """The driver of a loop for one alias; `keeper` closes it with the loop. `pid`: the process that opened it."""

    driver: Pool[Any]
    keeper: AsyncGenerator[None, None]
    pid: int


_drivers: WeakKeyDictionary[_Loop, dict[str, LoopDriver]] = WeakKeyDictionary()


async def driver(alias: str) -> AsyncDriver:
    """Return the running loop's driver for this alias."""
    loop = asyncio.get_running_loop()
    drivers = _drivers.get(loop)
    if drivers is None:
        for other in [other for other in _drivers if other.is_closed()]:
            _abandon(other)
            del _drivers[other]
        drivers = _drivers[loop] = {}
    if alias not in drivers:
        opened = open_async(alias)
        keeper = _close_with_loop(loop, alias, opened)
        drivers[alias] = LoopDriver(opened, keeper, os.getpid())
        await anext(keeper)
    return drivers[alias].driver


async def close() -> None:
    """Close the connections of the running loop. They are opened again when they are needed."""
    for opened in list(_drivers.get(asyncio.get_running_loop(), {}).values()):
        await opened.keeper.aclose()


def _abandon(loop: _Loop) -> None:
    for opened in _drivers[loop].values():
        # A forked process has copies of the connections of its parent, which goes on with them.
        if opened.pid == os.getpid():
            opened.driver.abandon()


@atexit.register
def _abandon_all() -> None:
    for loop in list(_drivers):
        if not loop.is_running():  # in a thread that outlives the main thread
            _abandon(loop)


async def _close_with_loop(loop: _Loop, alias: str, opened: AsyncDriver) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        _drivers.get(loop, {}).pop(alias, None)
        await opened.close()


def is_called_from_sync_code() -> bool:
    """Whether the running coroutine was called from sync code through `async_to_sync`.

    Then a transaction may be open on the caller's thread, and Django's connection of that thread must be used.
    """
    executor: Any = getattr(AsyncToSync.executors, "current", None)
    while executor is not None:
        # A stopped executor belongs to a call that has returned: a task of that call still runs.
        if not executor._broken:
            return True
        executor = executor._old_executor
    return asyncio.get_running_loop() in AsyncToSync.loop_thread_executors


def prefers_django(alias: str, choice: str) -> bool:
    """Whether async code must use Django's connection: by choice, or because only that one can be right."""
    if choice == "auto":
        return is_in_memory(alias) or is_called_from_sync_code()
    return choice == "django"
