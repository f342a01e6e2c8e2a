"""Every test of the store runs on each database, and through both drivers when it takes `store`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from anyio.from_thread import start_blocking_portal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anyio.from_thread import BlockingPortal

    from tests.support.store.stores import Store


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """An event loop in a thread of its own."""
    with start_blocking_portal("asyncio") as portal:
        yield portal


@pytest.fixture(scope="session")
def async_stores(portal: BlockingPortal) -> Iterator[Callable[[str], Store]]:
    """The store of an alias over an async driver that is kept for the next test: its connections are expensive."""
    from tests.support.store.stores import async_store

    with ExitStack() as opened:
        stores: dict[str, Store] = {}

        def store_of(alias: str) -> Store:
            if alias not in stores:
                stores[alias] = opened.enter_context(async_store(alias, portal))
            return stores[alias]

        yield store_of


@pytest.fixture(params=["sync", "async"])
def store(request: pytest.FixtureRequest, database: str, async_stores: Callable[[str], Store]) -> Store:
    """The database through Django's own connection, and through the async driver."""
    from tests.support.store.stores import SyncStore

    return SyncStore(database) if request.param == "sync" else async_stores(database)
