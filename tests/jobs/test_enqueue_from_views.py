"""Views, sync and async, under WSGI and under ASGI: each enqueues in the way that fits its server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.test import AsyncClient, Client, override_settings

from tests.shop import tasks
from tests.support.databases.tables import count, counts

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.contract


class Get(Protocol):
    """The body of a view's response."""

    def __call__(self, url: str) -> str: ...


def under_wsgi(url: str) -> str:
    return Client().get(url).content.decode()


def under_asgi(url: str) -> str:
    async def get() -> str:
        try:
            return (await AsyncClient().get(url)).content.decode()
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(get(), debug=True)


@pytest.fixture(autouse=True)
def _urls() -> Iterator[None]:
    with override_settings(ROOT_URLCONF="tests.jobs.views"):
        yield


@pytest.fixture(params=[under_wsgi, under_asgi], ids=["wsgi", "asgi"])
def get(request: pytest.FixtureRequest) -> Get:
    way: Get = request.param
    return way


@pytest.mark.parametrize("view", ["sync", "async"])
def test_what_a_view_enqueues_is_stored(database: str, get: Get, view: str) -> None:
    id_ = get(f"/{view}")
    assert tasks.add.get_result(id_).args == [1]
    assert counts(database) == {"ready": 3}


@pytest.mark.parametrize("view", ["sync", "async"])
def test_without_a_transaction_what_a_failing_view_has_enqueued_stays(database: str, get: Get, view: str) -> None:
    with pytest.raises(LookupError):
        get(f"/{view}?fail")
    assert count(database, "job") == 3


@pytest.mark.parametrize("view", ["sync", "async"])
def test_a_view_joins_the_transaction_of_the_test_that_calls_it(database: str, view: str) -> None:
    with transaction.atomic(using=database):
        under_wsgi(f"/{view}")
        assert counts(database) == {"ready": 2, "blocked": 1}
        transaction.set_rollback(True, using=database)
    assert count(database, "job") == 0


def test_what_a_failing_view_with_a_transaction_has_enqueued_goes(
    database: str, get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.databases[database], "ATOMIC_REQUESTS", True)
    with pytest.raises(LookupError):
        get("/sync?fail")
    assert count(database, "job") == 0
    get("/sync")
    assert counts(database) == {"ready": 3}


def test_what_a_failing_view_enqueued_in_a_transaction_of_another_database_is_not_stored(
    database: str, get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.databases["default"], "ATOMIC_REQUESTS", True)
    with pytest.raises(LookupError):
        get("/sync?fail")
    assert count(database, "job") == 0
    get("/sync")
    assert counts(database) == {"ready": 3}
