"""A connect to PostgreSQL that is cancelled at any step: the event loop reports no error."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from steady_queue.errors import StoreUnavailable
from steady_queue.store.drivers.postgres import listen, open_pool
from steady_queue.store.names import NOTIFY_CHANNEL
from steady_queue.store.operations.notify import notify

if TYPE_CHECKING:
    from steady_queue.store.drivers.pool import ConnectionParameters

#: More steps of the event loop than a connect takes until it waits for the server's answer.
STEPS = 30


def fixed(parameters: dict[str, Any]) -> ConnectionParameters:
    """The same parameters for every connection."""

    async def compute() -> dict[str, Any]:
        return parameters

    return compute


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("listens", [False, True], ids=["pool", "listener"])
def test_a_connect_that_is_cancelled_leaves_no_error(new_loop: Any, listens: bool) -> None:
    """The server accepts, and does not answer the request for encryption."""
    reported: list[dict[str, Any]] = []

    async def connect(parameters: dict[str, Any]) -> None:
        if listens:
            await listen(fixed(parameters), NOTIFY_CHANNEL, print, print)
        else:
            pool = open_pool(fixed(parameters), size=1)
            await pool.run(notify(pool.sql))

    async def cancel_at_each_step() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        with socket.create_server(("127.0.0.1", 0)) as server:
            host, port = server.getsockname()
            parameters = {"host": host, "port": port, "user": "nobody", "password": "", "database": "none"}
            for steps in range(STEPS):
                connecting = asyncio.create_task(connect(parameters))
                for _ in range(steps):
                    await asyncio.sleep(0)
                connecting.cancel()
                with suppress(asyncio.CancelledError):
                    await connecting
                for _ in range(STEPS):  # the transport is closed in a later step
                    await asyncio.sleep(0)
            del connecting
            gc.collect()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(cancel_at_each_step())
    assert reported == []


def test_a_server_that_closes_instead_of_an_answer_is_unavailable() -> None:
    async def connect() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            pool = open_pool(fixed({"host": host, "port": port, "user": "nobody", "database": "none"}), size=1)
            with pytest.raises(StoreUnavailable, match="connection"):
                await pool.run(notify(pool.sql))

    asyncio.run(connect())
