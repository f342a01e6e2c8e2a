"""The ASGI wrapper in a real uvicorn: shutdown, exit statuses, several web workers."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue.aio import running
from tests.asgi.helpers import delete_process_rows
from tests.support.databases.tables import count, counts, query
from tests.support.processes.web_servers import serving
from tests.support.runtime import WAIT_TIMEOUT_SECONDS, in_thread, until, worker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.processes.web_servers import Server
    from tests.support.servers.proxy import Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]


REQUESTS = 200
#: The number of concurrent requests.
CLIENTS = 20


class Web:
    """The application of tests.asgi.web_application in a server, and the file that it writes."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "done"
        self.gate = directory / "gate"

    def serving(self, alias: str, *arguments: str, **more: Any) -> Any:
        more.setdefault("application", "tests.asgi.web_application:application")
        return serving(*arguments, STEADY_QUEUE_WEB_DATABASE=alias, STEADY_QUEUE_WEB_FILE=str(self.file), **more)

    def done(self, what: str) -> list[int]:
        """The numbers of the tasks with this word in the file."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(f"{what} ")]


@pytest.fixture
def web(tmp_path: Path) -> Web:
    return Web(tmp_path)


async def ask(server: Server, paths: list[str]) -> Counter[int]:
    """Request all paths, several at once; return the number of responses by status."""
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
    assert await in_thread(count, database, "process") == 0
    # Jobs that had not begun were released. Nothing was cancelled, failed or left claimed.
    assert set(await in_thread(counts, database)) <= {"ready"}
    assert {1000, 1001} <= set(web.done("ran"))
    await run_what_is_left(database, web)
    assert sorted(web.done("ran")) == [*range(REQUESTS), 1000, 1001]
    assert await in_thread(query, database, "SELECT attempts, count(*) FROM steady_queue_job GROUP BY attempts") == [
        (1, REQUESTS + 2)
    ]


async def run_what_is_left(alias: str, web: Web) -> None:
    """Run the released jobs in another server."""
    async with web.serving(alias) as server:

        async def is_over() -> bool:
            return not await in_thread(counts, alias)

        await until(is_over)
        server.terminate()
        await server.ended()


@pytest.mark.only_on("sqlite")
async def test_a_real_server_without_lifespan_logs_that_no_tasks_run(database: str, web: Web) -> None:
    async with web.serving(database, "--lifespan=off") as server:
        assert await ask(server, ["/enqueue/step/1", "/hello"]) == {200: 2}
        await server.prints("TASKS DO NOT RUN IN THIS PROCESS")
        server.terminate()
        await server.ended()
    assert server.printed.count("TASKS DO NOT RUN IN THIS PROCESS") == 1
    assert await in_thread(counts, database) == {"ready": 1}


async def test_a_real_server_whose_runtime_fails_answers_its_requests_and_exits_with_75(
    database: str, web: Web
) -> None:
    async with web.serving(database, STEADY_QUEUE_WEB_BREAKS="yes") as server:
        assert await server.get("/break") == (200, "broken")
        assert await server.ended() == 75, server.printed
    assert "the queue has failed: no tasks run" in server.printed
    assert "a fault of ours" in server.printed
    await delete_process_rows(database)


@pytest.mark.only_on("sqlite")
async def test_a_web_worker_whose_runtime_has_failed_is_replaced_by_its_parent(database: str, web: Web) -> None:
    # Its parent may have sent a health check just before, and replaces the worker when no answer came in time.
    within = 15
    async with web.serving(database, workers=2, answer_within_seconds=within, STEADY_QUEUE_WEB_BREAKS="yes") as server:
        assert await server.get("/break") == (200, "broken")
        await server.prints("Application startup complete.", times=3, timeout_seconds=within + WAIT_TIMEOUT_SECONDS)
        server.terminate()
        await server.ended()
    await delete_process_rows(database)


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_real_server_exits_with_75_when_the_lease_is_lost_while_a_thread_runs(
    database: str, web: Web, proxy: Proxy
) -> None:
    environment = {f"STEADY_QUEUE_TEST_{database.upper()}_PORT": str(proxy.port), "STEADY_QUEUE_WEB_ALIVE": "4"}
    async with web.serving(database, **environment) as server:
        assert await ask(server, ["/enqueue/blocks/1"]) == {200: 1}
        await until(lambda: web.done("began") == [1])
        proxy.go()
        assert await server.ended() == 75, server.printed
    assert "a task runs that cannot be stopped" in server.printed
    async with running(worker(threads=0)):  # at its start it prunes the dead processes of its own machine

        async def has_failed() -> bool:
            return await in_thread(counts, database) == {"failed": 1}

        await until(has_failed)
