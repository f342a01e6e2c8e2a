"""The runtime in the lifespan of an ASGI application: startup, shutdown, refused startups."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.test import override_settings

import steady_queue
from steady_queue import actions
from steady_queue.asgi import SteadyQueue
from steady_queue.configuration import Options, Worker
from steady_queue.db import loop_connections
from steady_queue.errors import ConfigurationError
from tests.asgi.helpers import COMPLETE, STOPPED, Application, lifespan_of, must_not_be_called, started
from tests.shop.tasks import add
from tests.support.databases.tables import count
from tests.support.processes.scripts import REPOSITORY, run_script
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


@pytest.mark.usually_on("sqlite")
async def test_a_request_stops_the_queue_and_the_server_goes_on(database: str) -> None:
    application = SteadyQueue(get_asgi_application(), worker(coroutines=5))
    async with started(application) as lifespan:
        assert application.process is not None
        await actions.astop_process(application.process.id, by="Ada")

        async def stopped() -> bool:
            return await in_thread(count, database, "process") == 0

        await until(stopped)
        assert not lifespan.task.done()
        assert await lifespan.shutdown() == STOPPED


@pytest.mark.only_on("sqlite")
async def test_the_lifespan_has_ended_when_the_server_has_its_last_answer(database: str) -> None:
    # Hypercorn cancels the lifespan then, and logs the CancelledError of one that has not ended.
    has_started, has_stopped = asyncio.Event(), asyncio.Event()
    asked: asyncio.Queue[Any] = asyncio.Queue()

    async def send(message: dict[str, Any]) -> None:
        (has_started if message == COMPLETE else has_stopped).set()

    task = asyncio.create_task(SteadyQueue(get_asgi_application())({"type": "lifespan"}, asked.get, send))
    for phase, event in (("startup", has_started), ("shutdown", has_stopped)):
        asked.put_nowait({"type": f"lifespan.{phase}"})
        await asyncio.wait_for(event.wait(), WAIT_TIMEOUT_SECONDS)
    task.cancel()
    await task


@pytest.mark.only_on("sqlite")
async def test_an_error_that_the_server_raises_for_a_failed_startup_is_not_changed(database: str) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, Any]) -> None:
        raise LookupError(message["message"])

    with pytest.raises(LookupError, match="no room"):
        await SteadyQueue(Application(startup="no room"))({"type": "lifespan", "state": {}}, receive, send)


@pytest.mark.only_on("sqlite")
async def test_the_shutdown_closes_the_connections_of_requests(database: str) -> None:
    async with started(SteadyQueue(get_asgi_application())) as lifespan:
        await add.aenqueue(1, 2)  # as in a view
        opened = await loop_connections.driver(database)
        await lifespan.shutdown()
        assert await loop_connections.driver(database) is not opened


# -- what it prints ---------------------------------------------------------------------------------------------------

START = f"Steady Queue {steady_queue.__version__} runs tasks in process {os.getpid()} on SQLite (sqlite): "


def without_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the handlers, as in a project that has not configured logging. pytest adds its own just before a test."""
    logger = logging.getLogger("steady_queue")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", False)


@pytest.mark.only_on("sqlite")
async def test_a_server_without_logging_prints_the_start_and_the_stop(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_logging(monkeypatch)
    options = worker(coroutines=5, threads=1, exclude_queues=["slow*"])
    async with started(SteadyQueue(get_asgi_application(), options)) as lifespan:
        await lifespan.shutdown()
    assert re.sub(r"\d+ recurring", "NUMBER recurring", capsys.readouterr().err).splitlines() == [
        f"{START}worker (* except slow*; 5 coroutines, 1 thread), dispatcher, scheduler (NUMBER recurring tasks)",
        f"Steady Queue has stopped in process {os.getpid()}",
    ]


@pytest.mark.only_on("sqlite")
async def test_the_guide_shows_what_a_server_prints(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_logging(monkeypatch)
    async with started(SteadyQueue(get_asgi_application(), Options())) as lifespan:
        await lifespan.shutdown()
    printed = capsys.readouterr().err.replace(f"process {os.getpid()}", "process 4711")
    printed = re.sub(r"\d+ recurring", "2 recurring", printed.replace("SQLite (sqlite)", "PostgreSQL (default)"))
    assert printed in (REPOSITORY / "docs/guides/running.md").read_text()


@pytest.mark.only_on("sqlite")
async def test_a_queue_that_does_not_start_prints_no_start(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_logging(monkeypatch)
    with override_settings(STEADY_QUEUE=Options(workers=[Worker(coroutines=-1)])):
        async with lifespan_of(SteadyQueue(get_asgi_application())) as lifespan:
            await lifespan.startup()
            await lifespan.task
    assert capsys.readouterr().err == ""


@pytest.mark.only_on("sqlite")
async def test_with_logging_the_version_is_logged_and_nothing_printed(
    database: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "steady_queue")
    async with started(SteadyQueue(get_asgi_application())) as lifespan:
        await lifespan.shutdown()
    assert f"Steady Queue {steady_queue.__version__} runs tasks in this process" in caplog.messages
    assert capsys.readouterr().err == ""


# -- applications with a lifespan -------------------------------------------------------------------------------------


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
