"""Every action in its sync and its async form, on each database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from steady_queue import actions
from steady_queue.queues import Queue
from tests.support.store.stores import SyncStore


class Caller:
    """Calls an action by its plain name, in one of its two forms."""

    def __init__(self, is_async: bool) -> None:
        self.is_async = is_async

    def __call__(self, action: str, *args: Any, **kwargs: Any) -> Any:
        return self.do(actions, action, *args, **kwargs)

    def do(self, place: Any, action: str, *args: Any, **kwargs: Any) -> Any:
        """The same for any object that has both forms."""
        if self.is_async:
            return asyncio.run(getattr(place, f"a{action}")(*args, **kwargs), debug=True)
        return getattr(place, action)(*args, **kwargs)

    def ask(self, queue: str, what: str) -> Any:
        """A property of a queue."""
        if self.is_async:
            return asyncio.run(getattr(Queue(queue), f"a{what}")(), debug=True)
        return getattr(Queue(queue), what)


@pytest.fixture(params=["sync", "async"])
def caller(request: pytest.FixtureRequest, database: str) -> Caller:
    return Caller(request.param == "async")


@pytest.fixture
def store(database: str) -> SyncStore:
    """The store with which a test prepares and checks rows."""
    return SyncStore(database)
