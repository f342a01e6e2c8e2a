"""Tasks in the web servers that people use: enqueued by sync and async views, run in the server, stopped under load."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

import steady_queue
from tests.servers.asgi_servers import SERVER_TIMEOUT_SECONDS, SERVERS, serving
from tests.servers.environments import FROM_WHEEL
from tests.support.wait import in_thread, until

if TYPE_CHECKING:
    from tests.servers.asgi_servers import AsgiServer, Running
    from tests.servers.fresh_project import FreshProject

pytestmark = [
    pytest.mark.anyio,
    # One process makes the environment and the project. With the wheel, that takes a minute if nothing else runs.
    pytest.mark.xdist_group("servers"),
    pytest.mark.timeout(900 if FROM_WHEEL in os.environ else 300),
]
BY_NAME = {server.name: server for server in SERVERS}
#: How many clients ask for the page of each view.
CLIENTS = 2
#: How many tasks have ended, or are stored if none run, when the server is stopped.
TASKS_BEFORE_STOP = 20
#: What no server may print. With the worker of uvicorn, gunicorn logs "Error while closing socket" of its own at INFO.
PROBLEMS = ("Traceback", "Exception", "Error:", "ERROR", "CRITICAL", "Warning:")
NO_LIFESPAN = "TASKS DO NOT RUN IN THIS PROCESS"


class Case(NamedTuple):
    server: str
    on: str
    workers: int = 1

    def __str__(self) -> str:
        return f"{self.server}-{self.on}-{self.workers}"


#: `make test` covers each server once, and asyncpg with the two that end their event loop in their own way.
USUAL = [
    Case("uvicorn", "sqlite"),
    Case("hypercorn", "postgres"),
    Case("gunicorn-uvicorn", "sqlite", 2),
    Case("gunicorn-asgi", "postgres"),
    Case("granian", "sqlite"),
    Case("daphne", "sqlite"),
]
ALL = [
    Case(server.name, on, workers)
    for server in SERVERS
    for on in ("sqlite", "postgres")
    for workers in ((1, 2) if server.workers else (1,))
]
CASES = ALL if FROM_WHEEL in os.environ else USUAL


class Clients:
    """Ask for pages until the server does not answer any more; `enqueued` has the tasks of all responses."""

    def __init__(self, server: Running) -> None:
        self.enqueued: set[str] = set()
        self.expect_end = False
        self._server = server

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for path in ("/sync", "/async") * CLIENTS:
                group.create_task(self._ask(path))

    async def _ask(self, path: str) -> None:
        while (body := await self._server.get(path)) is not None:
            self.enqueued.update(body.split())
        assert self.expect_end, self._server.printed


async def stop_under_load(server: Running, project: FreshProject, *, runs_tasks: bool) -> set[str]:
    """Stop a server that has tasks to run and requests to answer; returns the tasks that it confirmed."""
    clients = Clients(server)
    load = asyncio.create_task(clients.run())
    try:
        count = project.runs if runs_tasks else lambda: clients.enqueued
        await until(
            lambda: load.done() or len(count()) >= TASKS_BEFORE_STOP,
            f"{TASKS_BEFORE_STOP} tasks did not run or were not stored",
            SERVER_TIMEOUT_SECONDS,
        )
        clients.expect_end = True
        server.terminate()
        await load
    finally:
        load.cancel()
    return clients.enqueued


@pytest.mark.parametrize(("server", "on", "workers"), CASES, ids=map(str, CASES))
async def test_a_server_that_is_stopped_under_load_prints_no_traceback_and_loses_no_task(
    server: str, on: str, workers: int, project: FreshProject
) -> None:
    kind: AsgiServer = BY_NAME[server]
    async with serving(kind, project, workers=workers) as running:
        confirmed = await stop_under_load(running, project, runs_tasks=kind.has_lifespan)
        status = await running.ended()
    assert status == kind.statuses[workers > 1], running.printed
    check_output(kind, running.printed, workers)

    jobs = await in_thread(project.jobs)
    assert confirmed <= set(jobs)
    # What the server did not run was released; nothing is left claimed or failed, and no process is registered.
    assert set(jobs.values()) <= {(1, True), (0, False)}
    for table in ("claimedexecution", "failedexecution", "process"):
        assert await in_thread(project.query, f"SELECT count(*) FROM steady_queue_{table}") == [(0,)], table
    assert {key for key, state in jobs.items() if state == (1, True)} == set(project.runs())
    assert bool(project.runs()) == kind.has_lifespan

    await in_thread(project.drain)
    assert await in_thread(project.jobs) == dict.fromkeys(jobs, (1, True))
    assert project.runs() == dict.fromkeys(jobs, 1)


def check_output(server: AsgiServer, printed: str, workers: int) -> None:
    """A server with a lifespan prints one line per process at the start and at the stop; any server prints no error."""
    if server.has_lifespan:
        assert printed.count(f"Steady Queue {steady_queue.__version__} runs tasks in process") == workers, printed
        assert printed.count("Steady Queue has stopped in process") == workers, printed
        assert NO_LIFESPAN not in printed
    else:
        assert printed.count(NO_LIFESPAN) == 1, printed
        printed = "".join(line for line in printed.splitlines(keepends=True) if NO_LIFESPAN not in line)
    assert not [text for text in PROBLEMS if text in printed], printed


@pytest.mark.parametrize("on", ["postgres"])
async def test_a_server_that_only_enqueues_closes_its_connections_without_a_traceback(
    on: str, project: FreshProject
) -> None:
    # The only server that closes neither the async generators of its event loop nor, without a lifespan, anything else.
    async with serving(BY_NAME["gunicorn-asgi"], project, WITHOUT_RUNTIME="yes") as running:
        confirmed = await stop_under_load(running, project, runs_tasks=False)
        assert await running.ended() == 0
    assert not [text for text in PROBLEMS if text in running.printed], running.printed
    assert confirmed <= set(await in_thread(project.jobs))
