"""The ASGI wrapper while the database is unavailable, and after the runtime has failed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.core.asgi import get_asgi_application

import steady_queue
from steady_queue.aio import outage
from steady_queue.aio.process.heartbeat import Heartbeat
from steady_queue.asgi import SteadyQueue
from steady_queue.errors import SteadyQueueError
from steady_queue.events import LeaseLost
from tests.asgi.helpers import STOPPED, Application, delete_process_rows, must_not_be_called, started
from tests.shop.tasks import add
from tests.support.databases.tables import count
from tests.support.runtime import EmittedEvents, in_thread, until, values, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.servers.proxy import Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]


# -- the database is unavailable at the startup -----------------------------------------------------------------------


@pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could be unavailable
async def test_a_server_serves_while_its_database_is_away_and_runs_tasks_when_it_is_back(
    database: str, proxied: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.go()
    application = SteadyQueue(get_asgi_application(), worker(), ready_within=0.2, alias=proxied)
    async with started(application) as lifespan:
        assert "the server starts without it" in caplog.text
        result = await add.aenqueue(1)
        proxy.come_back()
        assert await values(result) == [1]
        assert await lifespan.shutdown() == STOPPED
    assert await in_thread(count, database, "process") == 0


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_server_can_be_stopped_while_its_database_is_away(database: str, proxied: str, proxy: Proxy) -> None:
    proxy.go()
    async with started(SteadyQueue(get_asgi_application(), ready_within=0.1, alias=proxied)) as lifespan:
        assert await lifespan.shutdown() == STOPPED


@pytest.mark.usefixtures("_servers_too_old")
@pytest.mark.only_on("postgres", "mariadb")
async def test_a_server_found_too_old_after_the_startup_ends_the_runtime(
    database: str, proxied: str, proxy: Proxy
) -> None:
    proxy.go()
    errors: list[Exception] = []
    application = SteadyQueue(get_asgi_application(), ready_within=0.1, alias=proxied, on_death=errors.append)
    async with started(application) as lifespan:
        proxy.come_back()
        await until(lambda: bool(errors))
        assert (await lifespan.shutdown())["type"] == "lifespan.shutdown.failed"
    (error,) = errors
    assert "is too old" in str(error)


# -- the runtime fails ------------------------------------------------------------------------------------------------


@pytest.fixture
def break_it(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let a service of the runtime fail."""
    is_broken = asyncio.Event()

    async def run(self: Heartbeat) -> None:
        await is_broken.wait()
        raise LookupError("a fault of ours")

    monkeypatch.setattr(Heartbeat, "run", run)
    return is_broken.set


async def test_a_function_is_called_when_the_runtime_fails_and_the_server_goes_on(
    database: str, break_it: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    inner, errors = Application(), []

    def remember(error: Exception) -> None:
        errors.append(error)
        raise ValueError("of the function")

    application = SteadyQueue(inner, on_death=remember)
    async with started(application) as lifespan:
        break_it()
        await until(lambda: bool(errors))
        await application({"type": "http"}, must_not_be_called, must_not_be_called)
        assert (await lifespan.shutdown())["type"] == "lifespan.shutdown.failed"
    (error,) = errors
    assert isinstance(error, LookupError)
    assert "the queue has failed: no tasks run" in caplog.text
    assert "on_death has failed" in caplog.text
    assert len(inner.calls) == 1
    assert inner.received == ["startup", "shutdown"]
    await delete_process_rows(database)


async def test_a_failure_of_the_runtime_that_is_ignored_is_logged_and_the_server_goes_on(
    database: str, break_it: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    inner = Application()
    application = SteadyQueue(inner, on_death="ignore")
    async with started(application) as lifespan:
        break_it()
        await until(lambda: "the queue has failed: no tasks run" in caplog.text)
        await application({"type": "http"}, must_not_be_called, must_not_be_called)
        assert not lifespan.task.done()
        assert (await lifespan.shutdown())["type"] == "lifespan.shutdown.failed"
    assert len(inner.calls) == 1
    await delete_process_rows(database)


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_lost_lease_is_reported_once_and_the_runtime_goes_on_if_on_death_returns(
    database: str, proxied: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "MAX_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(steady_queue, "process_alive_threshold", timedelta(seconds=3))
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.3))
    errors: list[Exception] = []
    emitted = EmittedEvents()
    application = SteadyQueue(get_asgi_application(), worker(), alias=proxied, events=emitted, on_death=errors.append)
    async with started(application) as lifespan:
        blocked = await recording.blocks.aenqueue("blocked")
        await until(lambda: len(task_record.began) == 1)
        proxy.go()
        # The runtime requests its end repeatedly.
        await until(lambda: len(emitted.of(LeaseLost)) >= 3)
        proxy.come_back()
        task_record.gate.set()
        assert await values(await add.aenqueue(1), blocked) == [1, "blocked"]
        assert await lifespan.shutdown() == STOPPED
    (error,) = errors
    assert isinstance(error, SteadyQueueError)
    assert "a task runs that cannot be stopped" in str(error)
