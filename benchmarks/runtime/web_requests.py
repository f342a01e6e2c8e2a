"""What the worker costs the requests of a web server that it is embedded in.

Two servers receive the same requests in alternating turns: one with an embedded worker and one without. Both enqueue
tasks; no worker runs those of the second server. The turns are short, so that other load on the machine affects both.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.support.processes import BenchmarkError
from benchmarks.support.rounds import percentile
from tests.support.databases.invariants import violations
from tests.support.databases.tables import counts, empty_tables, query
from tests.support.processes.printing_process import HOST
from tests.support.processes.web_servers import serving
from tests.support.wait import in_thread, until

if TYPE_CHECKING:
    from benchmarks.support.rounds import Context
    from tests.support.processes.web_servers import Server

#: The requests to each server in a round. Every second one enqueues a task.
REQUESTS = 1_000
REQUEST_INTERVAL_SECONDS = 0.01
#: The requests that a server receives in one turn. The first turns warm the caches and do not count.
REQUESTS_PER_TURN, WARM_UP_TURNS = 50, 2
TARGET_RATIO = 1.5
WITH, WITHOUT = "with an embedded worker", "without a worker"
#: The application of each server, and the queue of its tasks; the worker runs only tasks of the first queue.
SERVERS = {WITH: ("application", "default"), WITHOUT: ("django_application", "mail")}


def measure(context: Context) -> None:
    turns = WARM_UP_TURNS + max(1, context.reduce(REQUESTS) // REQUESTS_PER_TURN)
    figures = context.figures
    milliseconds = REQUEST_INTERVAL_SECONDS * 1000
    heading = f"Requests to a web server, one every {milliseconds:.0f} ms; every second one enqueues a task"
    figures.start_section("web", heading)
    rounds = [_run_round(turns, context) for _ in range(context.rounds)]
    for share in (0.5, 0.99):
        of_rounds = {server: [percentile(durations[server], share) for durations in rounds] for server in SERVERS}
        # Of all rounds together: the tenth slowest of a thousand requests depends more on the disk than on the worker.
        of_all = {
            server: percentile([took for durations in rounds for took in durations[server]], share)
            for server in SERVERS
        }
        for server, values in of_rounds.items():
            figures.add(f"{server}, p{share * 100:.0f}", of_all[server], "ms", rounds=values)
    ratios = [embedded / alone for embedded, alone in zip(*of_rounds.values(), strict=True)]
    ratio = of_all[WITH] / of_all[WITHOUT]
    figures.add("p99 with / without", ratio, "times", target=TARGET_RATIO, at_most=True, rounds=ratios)


def _run_round(turns: int, context: Context) -> dict[str, list[float]]:
    """The milliseconds of the requests to each server."""
    empty_tables("postgres")
    with TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
        file = Path(directory) / "done"
        durations = asyncio.run(_serve(turns, file))
        ran = Counter(line.split()[1] for line in file.read_text().splitlines())
    tasks = turns * REQUESTS_PER_TURN // 2
    problems = violations("postgres")
    if len(ran) != tasks or set(ran.values()) != {1}:
        problems.append(f"{sum(ran.values())} runs of {len(ran)} tasks instead of {tasks}")
    if (left := counts("postgres")) != {"ready": tasks}:
        problems.append(f"{left} are left instead of the {tasks} tasks for which there is no worker")
    context.figures.add_problems(problems)
    empty_tables("postgres")
    return durations


async def _serve(turns: int, file: Path) -> dict[str, list[float]]:
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        clients: dict[str, Client] = {}
        for name, (application, queue) in SERVERS.items():
            environment: dict[str, Any] = {
                "STEADY_QUEUE_WEB_DATABASE": "postgres",
                "STEADY_QUEUE_WEB_QUEUE": queue,
                "STEADY_QUEUE_WEB_FILE": str(file),
            }
            path = f"tests.asgi.web_application:{application}"
            server = await stack.enter_async_context(
                serving("--timeout-keep-alive=60", application=path, **environment)
            )
            servers.append(server)
            clients[name] = await stack.enter_async_context(Client(server.port))
        for turn in range(turns):
            # The order changes, so that neither server is always the second.
            for name in list(SERVERS)[:: -1 if turn % 2 else 1]:
                numbers = range(turn * REQUESTS_PER_TURN, (turn + 1) * REQUESTS_PER_TURN)
                await clients[name].send_requests(numbers)
        await until(_is_finished, "some tasks did not finish")
        for server in servers:
            server.terminate()
            await server.ended()
    return {name: client.durations[WARM_UP_TURNS * REQUESTS_PER_TURN :] for name, client in clients.items()}


async def _is_finished() -> bool:
    """Whether the embedded worker has finished all of its tasks."""
    unfinished = "SELECT 1 FROM steady_queue_job WHERE finished_at IS NULL AND queue_name = %s LIMIT 1"
    return not await in_thread(query, "postgres", unfinished, SERVERS[WITH][1])


class Client:
    """Sends requests at a steady rate, whether or not the server has answered the earlier ones."""

    def __init__(self, port: int) -> None:
        self.durations: list[float] = []
        self._port = port
        self._idle: list[Connection] = []

    async def send_requests(self, numbers: range) -> None:
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for index, number in enumerate(numbers):
                await asyncio.sleep(max(0.0, started + index * REQUEST_INTERVAL_SECONDS - time.monotonic()))
                group.create_task(self._send_request(number))

    async def _send_request(self, number: int) -> None:
        connection = self._idle.pop() if self._idle else await Connection.open(self._port)
        self.durations.append(await connection.get(f"/enqueue/step/{number}" if number % 2 else "/hello"))
        self._idle.append(connection)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for connection in self._idle:
            await connection.close()


class Connection:
    """A connection that stays open between requests, like that of a reverse proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection(HOST, port))

    async def get(self, path: str) -> float:
        """Send a request, and return the milliseconds until the response was complete."""
        started = time.monotonic_ns()
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        # The end of a chunked response; the bodies of these applications do not contain it.
        response = await self._reader.readuntil(b"\r\n0\r\n\r\n")
        if b" 200 " not in response.partition(b"\r\n")[0]:
            raise BenchmarkError(f"{path}: {response.decode()[:500]}")
        return (time.monotonic_ns() - started) / 1e6

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
