"""Async connections that belong to the running event loop and are closed with it.

They are held by an async generator: `asyncio.run` and every server end those with `shutdown_asyncgens`, so that a
script which ends after `asyncio.run(task.aenqueue())` leaves nothing open (an aiosqlite thread would keep it alive).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from asgiref.sync import AsyncToSync

from steady_queue.db.aliases import is_in_memory, open_async

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from steady_queue.store.drivers.pool import AsyncDriver

_Loop = asyncio.AbstractEventLoop


class Held(NamedTuple):
    """What a loop has for one alias; `keeper` closes it with the loop."""

    driver: AsyncDriver
    keeper: AsyncGenerator[None, None]


_held: WeakKeyDictionary[_Loop, dict[str, Held]] = WeakKeyDictionary()


async def driver(alias: str) -> AsyncDriver:
    """The running loop's driver for this alias."""
    loop = asyncio.get_running_loop()
    held = _held.get(loop)
    if held is None:
        for other in [other for other in _held if other.is_closed()]:
            del _held[other]
        held = _held[loop] = {}
    if alias not in held:
        opened = open_async(alias)
        keeper = _closed_with_loop(loop, alias, opened)
        held[alias] = Held(opened, keeper)
        await anext(keeper)
    return held[alias].driver


async def _closed_with_loop(loop: _Loop, alias: str, opened: AsyncDriver) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        _held.get(loop, {}).pop(alias, None)
        await opened.close()


def inside_sync_code() -> bool:
    """Whether the running coroutine was called from sync code through `async_to_sync`.

    Then a transaction may be open on the caller's thread, and its own connection is the right one to use.
    """
    executor: Any = getattr(AsyncToSync.executors, "current", None)
    while executor is not None:
        # An executor that has quit belongs to a call that has returned: a task outlived it.
        if not executor._broken:
            return True
        executor = executor._old_executor
    return asyncio.get_running_loop() in AsyncToSync.loop_thread_executors


def prefers_django(alias: str, choice: str) -> bool:
    """Whether async code should go through Django's connection: by choice, or because only that one can be right."""
    if choice == "auto":
        return is_in_memory(alias) or inside_sync_code()
    return choice == "django"
