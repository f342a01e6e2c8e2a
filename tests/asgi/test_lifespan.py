"""The runtime in the lifespan of an ASGI application: startup, shutdown, refused startups."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.test import override_settings

from steady_queue.asgi import SteadyQueue
from steady_queue.configuration import Options, Worker
from steady_queue.errors import ConfigurationError
from tests.asgi.helpers import COMPLETE, STOPPED, Application, lifespan_of, must_not_be_called, started
from tests.shop.tasks import add
from tests.support.databases.tables import count
from tests.support.processes.scripts import run_script
from tests.support.runtime import WAIT_TIMEOUT_SECONDS, EmittedEvents, in_thread, until, values, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]


# -- the lifespan -----------------------------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_the_startup_starts_the_queue_and_the_shutdown_drains_it(database: str) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    application = SteadyQueue(get_asgi_application(), worker(coroutines=5))
    async with started(application) as lifespan:
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
        assert await values(await add.aenqueue(1, 2)) == [3]
        results = [await task.aenqueue("last") for task in (recording.awaits, recording.blocks)]
        await until(lambda: len(task_record.began) == 2)
        shutdown = asyncio.create_task(lifespan.shutdown())
        assert application.process is not None
        await until(application.process.deadlines.requested.is_set)
        task_record.gate.set()
        assert await shutdown == STOPPED
    assert await values(*results) == ["last", "last"]
    assert await in_thread(count, database, "process") == 0


async def test_a_cancelled_lifespan_drains_the_queue_as_well(database: str) -> None:
    application = SteadyQueue(get_asgi_application())
    async with started(application) as lifespan:
        result = await recording.awaits.aenqueue("last")
        await until(lambda: len(task_record.began) == 1)
        lifespan.task.cancel()
        assert application.process is not None
        await until(application.process.deadlines.requested.is_set)
        task_record.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(lifespan.task, WAIT_TIMEOUT_SECONDS)
    assert await values(result) == ["last"]
    assert await in_thread(count, database, "process") == 0


async def test_an_application_with_a_lifespan_starts_before_the_queue_and_stops_after_it(database: str) -> None:
    inner, emitted = Application(), EmittedEvents()
    emitted.add(lambda event: inner.received.append(type(event).__name__))
    async with started(SteadyQueue(inner, events=emitted)) as lifespan:
        assert lifespan.scope["state"] == {"of": "the application"}
        assert await lifespan.shutdown() == STOPPED
    reported = [name for name in inner.received if name in ("startup", "ProcessStarted", "ProcessStopped", "shutdown")]
    assert reported == ["startup", "ProcessStarted", "ProcessStopped", "shutdown"]


async def test_messages_of_an_application_with_a_lifespan_are_passed_on(database: str) -> None:
    application = SteadyQueue(Application(startup="no room"))
    async with lifespan_of(application) as lifespan:
        assert await lifespan.startup() == {"type": "lifespan.startup.failed", "message": "no room"}
        await lifespan.task
    assert application.process is None
    async with started(SteadyQueue(Application(shutdown="too late"))) as lifespan:
        assert await lifespan.shutdown() == {"type": "lifespan.shutdown.failed", "message": "too late"}


async def test_an_application_that_leaves_its_lifespan_by_an_error_fails_the_shutdown(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fragile(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(COMPLETE)
        await receive()
        raise LookupError("of the application")

    async with started(SteadyQueue(fragile)) as lifespan:
        answer = await lifespan.shutdown()
    assert answer == {"type": "lifespan.shutdown.failed", "message": "of the application"}
    assert "LookupError" in caplog.text


async def test_requests_pass_through_unchanged_and_a_server_without_lifespan_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = Application()
    application = SteadyQueue(inner)
    calls = [({"type": kind}, asyncio.Event().wait, must_not_be_called) for kind in ("http", "websocket", "http")]
    for scope, receive, send in calls:
        await application(scope, receive, send)
    for given, passed in zip(calls, inner.calls, strict=True):
        assert all(one is other for one, other in zip(given, passed, strict=True))
    (reported,) = [record for record in caplog.records if record.name == "steady_queue"]
    assert reported.levelno == logging.ERROR
    assert "TASKS DO NOT RUN IN THIS PROCESS" in reported.message


# -- what cannot start ------------------------------------------------------------------------------------------------


async def test_wrong_options_fail_the_startup_with_every_problem(database: str) -> None:
    inner = Application()
    with override_settings(STEADY_QUEUE=Options(workers=[Worker(coroutines=-1, orm_lanes=0)])):
        async with lifespan_of(SteadyQueue(inner)) as lifespan:
            answer = await lifespan.startup()
            await lifespan.task
    assert answer["type"] == "lifespan.startup.failed"
    assert "coroutines must be" in answer["message"]
    assert "orm_lanes must be" in answer["message"]
    assert inner.received == ["startup", "shutdown"]


@pytest.mark.usefixtures("_servers_too_old")
async def test_a_server_that_is_too_old_fails_the_startup(database: str) -> None:
    async with lifespan_of(SteadyQueue(get_asgi_application())) as lifespan:
        answer = await lifespan.startup()
        await lifespan.task
    assert answer["type"] == "lifespan.startup.failed"
    assert "is too old: 1000 or newer is needed" in answer["message"]


def test_impossible_arguments_are_refused_by_the_constructor() -> None:
    with pytest.raises(ConfigurationError, match=r"on_death.*'restart'"):
        SteadyQueue(Application(), on_death="restart")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="on_death"):
        SteadyQueue(Application(), leave=print)


def test_the_wrapper_can_be_imported_before_the_settings_are_known() -> None:
    text = """
import os
del os.environ["DJANGO_SETTINGS_MODULE"]
from django.core.asgi import get_asgi_application
from steady_queue.asgi import SteadyQueue
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
print(type(SteadyQueue(get_asgi_application())).__name__)
"""
    assert run_script(text) == "SteadyQueue\n"
