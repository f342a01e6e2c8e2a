from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.proxy import Proxy


@pytest.fixture(autouse=True)
def _empty_book() -> Iterator[None]:
    """Every test finds an empty book, and leaves no task behind a closed gate."""
    from tests.runtime.tasks import book  # not before Django is set up

    book.clear()
    yield
    book.clear()


@pytest.fixture
def behind(database: str, proxy: Proxy) -> Iterator[str]:
    """The way to the database over the proxy, for a process under test alone."""
    from tests.support.aliases import extra_database, twin_settings

    # asyncpg complains of a connection that is lost and given up at once while it asks for encryption.
    options = {"sslmode": "disable"} if database == "postgres" else {}
    settings = twin_settings(database, options=options, HOST=proxy.host, PORT=proxy.port)
    with extra_database(f"{database}_behind", settings) as alias:
        yield alias
