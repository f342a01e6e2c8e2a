"""The runtime in a web server: its lifespan, what becomes of the server when the queue dies, and a real uvicorn."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.asgi import get_asgi_application
from django.test import override_settings

import steady_queue
from steady_queue.aio import outage, running
from steady_queue.aio.process.heartbeat import Heartbeat
from steady_queue.asgi import SteadyQueue
from steady_queue.configuration import Options, Worker
from steady_queue.errors import ConfigurationError, SteadyQueueError
from steady_queue.events import LeaseLost
from steady_queue.store.operations import server as server_module
from tests.shop.tasks import add
from tests.support.databases.tables import count, counts, query
from tests.support.processes.scripts import run_script
from tests.support.processes.web_servers import serving
from tests.support.runtime import PATIENCE, Heard, aside, until, values, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import book

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.processes.web_servers import Server
    from tests.support.servers.proxy import Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]

COMPLETE = {"type": "lifespan.startup.complete"}
STOPPED = {"type": "lifespan.shutdown.complete"}


class Lifespan:
    """A server's side of it."""

    def __init__(self, application: Any) -> None:
        self.scope: dict[str, Any] = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        self._asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.task = asyncio.create_task(application(self.scope, self._asked.get, self._answers.put))

    async def startup(self) -> dict[str, Any]:
        return await self._ask("startup")

    async def shutdown(self) -> dict[str, Any]:
        answer = await self._ask("shutdown")
        await asyncio.wait_for(self.task, PATIENCE)
        return answer

    async def _ask(self, phase: str) -> dict[str, Any]:
        self._asked.put_nowait({"type": f"lifespan.{phase}"})
        return await asyncio.wait_for(self._answers.get(), PATIENCE)


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
    """A wrapped application that has a lifespan of its own, and writes down what it is told."""

    def __init__(self, **messages: str) -> None:
        self.heard: list[str] = []
        self.calls: list[tuple[Any, ...]] = []
        self._messages = messages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            self.calls.append((scope, receive, send))
            return
        scope["state"]["of"] = "the application"
        for phase in ("startup", "shutdown"):
            assert await receive() == {"type": f"lifespan.{phase}"}
            self.heard.append(phase)
            if phase in self._messages:
                await send({"type": f"lifespan.{phase}.failed", "message": self._messages[phase]})
                return
            await send({"type": f"lifespan.{phase}.complete"})


async def unheard(*message: Any) -> None:
    raise AssertionError("nobody may be asked or told")


# -- the lifespan -----------------------------------------------------------------------------------------------------


@pytest.mark.smoke
async def test_the_startup_starts_the_queue_and_the_shutdown_drains_it(database: str) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    application = SteadyQueue(get_asgi_application(), worker(coroutines=5))
    async with started(application) as lifespan:
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
        assert await values(await add.aenqueue(1, 2)) == [3]
        results = [await task.aenqueue("last") for task in (recording.awaits, recording.blocks)]
        await until(lambda: len(book.began) == 2)
        shutdown = asyncio.create_task(lifespan.shutdown())
        assert application.process is not None
        await until(application.process.deadlines.requested.is_set)
        book.gate.set()
        assert await shutdown == STOPPED
    assert await values(*results) == ["last", "last"]
    assert await aside(count, database, "process") == 0


async def test_a_cancelled_lifespan_drains_the_queue_as_well(database: str) -> None:
    application = SteadyQueue(get_asgi_application())
    async with started(application) as lifespan:
        result = await recording.awaits.aenqueue("last")
        await until(lambda: len(book.began) == 1)
        lifespan.task.cancel()
        assert application.process is not None
        await until(application.process.deadlines.requested.is_set)
        book.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(lifespan.task, PATIENCE)
    assert await values(result) == ["last"]
    assert await aside(count, database, "process") == 0


async def test_an_application_with_a_lifespan_starts_before_the_queue_and_stops_after_it(database: str) -> None:
    inner, heard = Application(), Heard()
    heard.add(lambda event: inner.heard.append(type(event).__name__))
    async with started(SteadyQueue(inner, events=heard)) as lifespan:
        assert lifespan.scope["state"] == {"of": "the application"}
        assert await lifespan.shutdown() == STOPPED
    told = [name for name in inner.heard if name in ("startup", "ProcessStarted", "ProcessStopped", "shutdown")]
    assert told == ["startup", "ProcessStarted", "ProcessStopped", "shutdown"]


async def test_what_an_application_with_a_lifespan_tells_is_passed_on(database: str) -> None:
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


async def test_requests_pass_through_untouched_and_a_server_without_lifespan_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = Application()
    application = SteadyQueue(inner)
    calls = [({"type": kind}, asyncio.Event().wait, unheard) for kind in ("http", "websocket", "http")]
    for scope, receive, send in calls:
        await application(scope, receive, send)
    for given, passed in zip(calls, inner.calls, strict=True):
        assert all(one is other for one, other in zip(given, passed, strict=True))
    (told,) = [record for record in caplog.records if record.name == "steady_queue"]
    assert told.levelno == logging.ERROR
    assert "TASKS DO NOT RUN IN THIS PROCESS" in told.message


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
    assert inner.heard == ["startup", "shutdown"]


@pytest.mark.usefixtures("_old")
async def test_a_server_that_is_too_old_fails_the_startup(database: str) -> None:
    async with lifespan_of(SteadyQueue(get_asgi_application())) as lifespan:
        answer = await lifespan.startup()
        await lifespan.task
    assert answer["type"] == "lifespan.startup.failed"
    assert "is too old: 1000 or newer is needed" in answer["message"]


@pytest.fixture
def _old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every server is too old."""
    monkeypatch.setattr(server_module, "OLDEST_VERSIONS", dict.fromkeys(server_module.OLDEST_VERSIONS, (1000,)))


def test_what_cannot_be_meant_is_refused_when_it_is_written() -> None:
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


# -- the database is away at boot -------------------------------------------------------------------------------------


@pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could be away
async def test_a_server_serves_while_its_database_is_away_and_runs_tasks_when_it_is_back(
    database: str, behind: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.go()
    application = SteadyQueue(get_asgi_application(), worker(), ready_within=0.2, alias=behind)
    async with started(application) as lifespan:
        assert "the server starts without it" in caplog.text
        result = await add.aenqueue(1)
        proxy.come_back()
        assert await values(result) == [1]
        assert await lifespan.shutdown() == STOPPED
    assert await aside(count, database, "process") == 0


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_server_can_be_stopped_while_its_database_is_away(database: str, behind: str, proxy: Proxy) -> None:
    proxy.go()
    async with started(SteadyQueue(get_asgi_application(), ready_within=0.1, alias=behind)) as lifespan:
        assert await lifespan.shutdown() == STOPPED


@pytest.mark.usefixtures("_old")
@pytest.mark.only_on("postgres", "mariadb")
async def test_a_server_found_too_old_after_the_startup_is_the_queues_death(
    database: str, behind: str, proxy: Proxy
) -> None:
    proxy.go()
    errors: list[Exception] = []
    application = SteadyQueue(get_asgi_application(), ready_within=0.1, alias=behind, on_death=errors.append)
    async with started(application) as lifespan:
        proxy.come_back()
        await until(lambda: bool(errors))
        assert (await lifespan.shutdown())["type"] == "lifespan.shutdown.failed"
    (error,) = errors
    assert "is too old" in str(error)


# -- the queue dies ---------------------------------------------------------------------------------------------------


@pytest.fixture
def break_it(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let a service of the runtime fail."""
    is_broken = asyncio.Event()

    async def run(self: Heartbeat) -> None:
        await is_broken.wait()
        raise LookupError("a fault of ours")

    monkeypatch.setattr(Heartbeat, "run", run)
    return is_broken.set


async def test_a_function_is_told_of_the_queues_death_and_the_server_goes_on(
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
        await application({"type": "http"}, unheard, unheard)
        assert (await lifespan.shutdown())["type"] == "lifespan.shutdown.failed"
    (error,) = errors
    assert isinstance(error, LookupError)
    assert "the queue has failed: no tasks run" in caplog.text
    assert "on_death has failed" in caplog.text
    assert len(inner.calls) == 1
    assert inner.heard == ["startup", "shutdown"]
    await bury(database)


async def test_a_queues_death_that_is_ignored_is_logged_and_the_server_goes_on(
    database: str, break_it: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    inner = Application()
    application = SteadyQueue(inner, on_death="ignore")
    async with started(application) as lifespan:
        break_it()
        await until(lambda: "the queue has failed: no tasks run" in caplog.text)
        await application({"type": "http"}, unheard, unheard)
        assert not lifespan.task.done()
        assert (await lifespan.shutdown())["type"] == "lifespan.shutdown.failed"
    assert len(inner.calls) == 1
    await bury(database)


async def bury(alias: str) -> None:
    """Remove the rows of processes that have died."""
    await aside(query, alias, "DELETE FROM steady_queue_process")


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_loss_of_trust_is_told_once_and_the_queue_goes_on_if_it_is_let(
    database: str, behind: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "MAX_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(steady_queue, "process_alive_threshold", timedelta(seconds=3))
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.3))
    errors: list[Exception] = []
    heard = Heard()
    application = SteadyQueue(get_asgi_application(), worker(), alias=behind, events=heard, on_death=errors.append)
    async with started(application) as lifespan:
        blocked = await recording.blocks.aenqueue("blocked")
        await until(lambda: len(book.began) == 1)
        proxy.go()
        # The runtime asks again and again to be ended.
        await until(lambda: len(heard.of(LeaseLost)) >= 3)
        proxy.come_back()
        book.gate.set()
        assert await values(await add.aenqueue(1), blocked) == [1, "blocked"]
        assert await lifespan.shutdown() == STOPPED
    (error,) = errors
    assert isinstance(error, SteadyQueueError)
    assert "a task runs that cannot be stopped" in str(error)


# -- a real server ----------------------------------------------------------------------------------------------------

REQUESTS = 200
#: How many requests are under way at once.
CLIENTS = 20


class Web:
    """The application of tests.asgi.web_application in a server, and what it has written down."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "done"
        self.gate = directory / "gate"

    def serving(self, alias: str, *arguments: str, **more: Any) -> Any:
        more.setdefault("application", "tests.asgi.web_application:application")
        return serving(*arguments, STEADY_QUEUE_WEB_DATABASE=alias, STEADY_QUEUE_WEB_FILE=str(self.file), **more)

    def done(self, what: str) -> list[int]:
        """The numbers of the tasks of which this was written down."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(f"{what} ")]


@pytest.fixture
def web(tmp_path: Path) -> Web:
    return Web(tmp_path)


async def ask(server: Server, paths: list[str]) -> Counter[int]:
    """Request all of them, several at once; returns how many answers had which status."""
    left = iter(paths)
    statuses: Counter[int] = Counter()

    async def client() -> None:
        for path in left:
            status, _ = await server.get(path)
            statuses[status] += 1

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return statuses


@pytest.mark.smoke
@pytest.mark.parametrize("workers", [1, 2])
async def test_200_requests_are_served_while_tasks_run_and_a_stop_drains_them(
    database: str, web: Web, workers: int
) -> None:
    async with web.serving(database, workers=workers) as server:
        assert await ask(server, ["/enqueue/awaits/1000", "/enqueue/blocks/1001"]) == {200: 2}
        await until(lambda: sorted(web.done("began")) == [1000, 1001])
        assert await ask(server, [f"/enqueue/step/{number}" for number in range(REQUESTS)]) == {200: REQUESTS}
        assert not {1000, 1001} & set(web.done("ran"))
        server.terminate()
        await server.prints("Shutting down", times=workers)
        web.gate.touch()
        assert await server.ended() in (0, -signal.SIGTERM), server.printed
    # The parent of several workers complains about a socket of its own.
    for bad in ("ERROR", "Error", "Traceback", *(["Warning"] if workers == 1 else [])):
        assert bad not in server.printed, server.printed
    assert await aside(count, database, "process") == 0
    # What had not begun was given back. Nothing was cancelled, failed or left behind.
    assert set(await aside(counts, database)) <= {"ready"}
    assert {1000, 1001} <= set(web.done("ran"))
    await run_what_is_left(database, web)
    assert sorted(web.done("ran")) == [*range(REQUESTS), 1000, 1001]
    assert await aside(query, database, "SELECT attempts, count(*) FROM steady_queue_job GROUP BY attempts") == [
        (1, REQUESTS + 2)
    ]


async def run_what_is_left(alias: str, web: Web) -> None:
    """Another server takes what was given back."""
    async with web.serving(alias) as server:

        async def is_over() -> bool:
            return not await aside(counts, alias)

        await until(is_over)
        server.terminate()
        await server.ended()


@pytest.mark.only_on("sqlite")
async def test_a_real_server_without_lifespan_is_told_that_no_tasks_run(database: str, web: Web) -> None:
    async with web.serving(database, "--lifespan=off") as server:
        assert await ask(server, ["/enqueue/step/1", "/hello"]) == {200: 2}
        await server.prints("TASKS DO NOT RUN IN THIS PROCESS")
        server.terminate()
        await server.ended()
    assert server.printed.count("TASKS DO NOT RUN IN THIS PROCESS") == 1
    assert await aside(counts, database) == {"ready": 1}


async def test_a_real_server_whose_queue_dies_answers_its_requests_and_exits_with_75(database: str, web: Web) -> None:
    async with web.serving(database, STEADY_QUEUE_WEB_BREAKS="yes") as server:
        assert await server.get("/break") == (200, "broken")
        assert await server.ended() == 75, server.printed
    assert "the queue has failed: no tasks run" in server.printed
    assert "a fault of ours" in server.printed
    await bury(database)


@pytest.mark.only_on("sqlite")
async def test_a_web_worker_whose_queue_has_died_is_replaced_by_its_parent(database: str, web: Web) -> None:
    # Its parent may have asked it just before whether it is alive, and replaces it when no answer came in time.
    within = 15
    async with web.serving(database, workers=2, answer_within_seconds=within, STEADY_QUEUE_WEB_BREAKS="yes") as server:
        assert await server.get("/break") == (200, "broken")
        await server.prints("Application startup complete.", times=3, patience=within + PATIENCE)
        server.terminate()
        await server.ended()
    await bury(database)


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_real_server_exits_with_75_when_trust_is_lost_while_a_thread_runs(
    database: str, web: Web, proxy: Proxy
) -> None:
    elsewhere = {f"STEADY_QUEUE_TEST_{database.upper()}_PORT": str(proxy.port), "STEADY_QUEUE_WEB_ALIVE": "4"}
    async with web.serving(database, **elsewhere) as server:
        assert await ask(server, ["/enqueue/blocks/1"]) == {200: 1}
        await until(lambda: web.done("began") == [1])
        proxy.go()
        assert await server.ended() == 75, server.printed
    assert "a task runs that cannot be stopped" in server.printed
    async with running(worker(threads=0)):  # at its start it buries the dead of its own machine

        async def has_failed() -> bool:
            return await aside(counts, database) == {"failed": 1}

        await until(has_failed)
