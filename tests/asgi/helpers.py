"""A web server's side of the ASGI lifespan, and applications to wrap."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from tests.support.databases.tables import query
from tests.support.runtime import WAIT_TIMEOUT_SECONDS, in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


COMPLETE = {"type": "lifespan.startup.complete"}
STOPPED = {"type": "lifespan.shutdown.complete"}


class Lifespan:
    """The web server's side of a lifespan."""

    def __init__(self, application: Any) -> None:
        self.scope: dict[str, Any] = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        self._asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.task = asyncio.create_task(application(self.scope, self._asked.get, self._answers.put))

    async def startup(self) -> dict[str, Any]:
        return await self._ask("startup")

    async def shutdown(self) -> dict[str, Any]:
        answer = await self._ask("shutdown")
        await asyncio.wait_for(self.task, WAIT_TIMEOUT_SECONDS)
        return answer

    async def _ask(self, phase: str) -> dict[str, Any]:
        self._asked.put_nowait({"type": f"lifespan.{phase}"})
        return await asyncio.wait_for(self._answers.get(), WAIT_TIMEOUT_SECONDS)


@asynccontextmanager
async def lifespan_of(application: Any) -> AsyncIterator[Lifespan]:
    lifespan = Lifespan(application)
    try:
        yield lifespan
    finally:
        lifespan.task.cancel()
        with suppress(asyncio.CancelledError):
            await lifespan.task


@asynccontextmanager
async def started(application: Any) -> AsyncIterator[Lifespan]:
    async with lifespan_of(application) as lifespan:
        assert await lifespan.startup() == COMPLETE
        yield lifespan


class Application:
    """A wrapped application with its own lifespan, which records the messages that it receives."""

    def __init__(self, **messages: str) -> None:
        self.received: list[str] = []
        self.calls: list[tuple[Any, ...]] = []
        self._messages = messages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            self.calls.append((scope, receive, send))
            return
        scope["state"]["of"] = "the application"
        for phase in ("startup", "shutdown"):
            assert await receive() == {"type": f"lifespan.{phase}"}
            self.received.append(phase)
            if phase in self._messages:
                await send({"type": f"lifespan.{phase}.failed", "message": self._messages[phase]})
                return
            await send({"type": f"lifespan.{phase}.complete"})


async def must_not_be_called(*message: Any) -> None:
    raise AssertionError("neither receive nor send may be called")


async def delete_process_rows(alias: str) -> None:
    """Delete the rows of processes that have failed."""
    await in_thread(query, alias, "DELETE FROM steady_queue_process")
