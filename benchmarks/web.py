"""What the queue costs the requests of the web server that it is embedded in.

Two servers get the same requests by turns, one with the queue and one without: that one stores tasks all the same, and
nobody runs them. The turns are short, so that whatever else the machine does strikes both alike.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.hands import HandError
from benchmarks.latency import percentile
from tests.support.databases.invariants import violations
from tests.support.databases.tables import counts, empty_tables, query
from tests.support.processes.web_servers import HOST, serving
from tests.support.wait import aside, until

if TYPE_CHECKING:
    from benchmarks.scene import Scene
    from tests.support.processes.web_servers import Server

#: Requests to each server in a round, of which every second one enqueues a task; how far they are apart, in seconds.
REQUESTS, EVERY = 1_000, 0.01
#: How many requests a server gets in one turn. The first turns find cold caches, and do not count.
TURN, COLD = 50, 2
BAR = 1.5
WITH, WITHOUT = "with the queue", "without it"
#: The application of each side, and the queue that its tasks go to: the runtime takes them from the first only.
SIDES = {WITH: ("application", "default"), WITHOUT: ("django_application", "mail")}


def section(scene: Scene) -> None:
    turns = COLD + max(1, scene.few(REQUESTS) // TURN)
    figures = scene.figures
    what = f"Requests to a web server, one every {EVERY * 1000:.0f} ms, a task for every second one"
    figures.heading("web", what)
    taken = [_round(turns, scene) for _ in range(scene.rounds)]
    for share in (0.5, 0.99):
        of_rounds = {side: [percentile(its[side], share) for its in taken] for side in SIDES}
        # Of all rounds together: the tenth slowest of a thousand requests tells more of the disk than of the queue.
        of_all = {side: percentile([took for its in taken for took in its[side]], share) for side in SIDES}
        for side, values in of_rounds.items():
            figures.add(f"{side}, p{share * 100:.0f}", of_all[side], "ms", rounds=values)
    ratios = [embedded / alone for embedded, alone in zip(*of_rounds.values(), strict=True)]
    figures.add("p99 with / without", of_all[WITH] / of_all[WITHOUT], "times", bar=BAR, at_most=True, rounds=ratios)


def _round(turns: int, scene: Scene) -> dict[str, list[float]]:
    """Milliseconds that the requests to each side took."""
    empty_tables("postgres")
    with TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
        file = Path(directory) / "done"
        taken = asyncio.run(_serve(turns, file))
        ran = Counter(line.split()[1] for line in file.read_text().splitlines())
    tasks = turns * TURN // 2
    problems = violations("postgres")
    if len(ran) != tasks or set(ran.values()) != {1}:
        problems.append(f"{sum(ran.values())} runs of {len(ran)} tasks, not {tasks}")
    if (left := counts("postgres")) != {"ready": tasks}:
        problems.append(f"{left} are left, not the {tasks} that nobody runs")
    scene.figures.wrong(problems)
    empty_tables("postgres")
    return taken


async def _serve(turns: int, file: Path) -> dict[str, list[float]]:
    async with AsyncExitStack() as stack:
        servers: list[Server] = []
        clients: dict[str, Client] = {}
        for side, (application, queue) in SIDES.items():
            environment = {
                "STEADY_QUEUE_WEB_DATABASE": "postgres",
                "STEADY_QUEUE_WEB_QUEUE": queue,
                "STEADY_QUEUE_WEB_FILE": str(file),
            }
            where = f"tests.asgi.web_application:{application}"
            server = await stack.enter_async_context(
                serving("--timeout-keep-alive=60", application=where, **environment)
            )
            servers.append(server)
            clients[side] = await stack.enter_async_context(Client(server.port))
        for turn in range(turns):
            # Neither side is always the one that comes after the other.
            for side in list(SIDES)[:: -1 if turn % 2 else 1]:
                await clients[side].requests(range(turn * TURN, (turn + 1) * TURN))
        await until(_is_over, "some tasks never ended")
        for server in servers:
            server.terminate()
            await server.ended()
    return {side: client.took[COLD * TURN :] for side, client in clients.items()}


async def _is_over() -> bool:
    """Whether only the tasks are left that nobody runs."""
    unfinished = "SELECT 1 FROM steady_queue_job WHERE finished_at IS NULL AND queue_name = %s LIMIT 1"
    return not await aside(query, "postgres", unfinished, SIDES[WITH][1])


class Client:
    """Sends requests at a steady pace, whether or not those before have been answered."""

    def __init__(self, port: int) -> None:
        self.took: list[float] = []
        self._port = port
        self._free: list[Connection] = []

    async def requests(self, numbers: range) -> None:
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for at, number in enumerate(numbers):
                await asyncio.sleep(max(0.0, begun + at * EVERY - time.monotonic()))
                group.create_task(self._request(number))

    async def _request(self, number: int) -> None:
        connection = self._free.pop() if self._free else await Connection.open(self._port)
        self.took.append(await connection.get(f"/enqueue/step/{number}" if number % 2 else "/hello"))
        self._free.append(connection)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for connection in self._free:
            await connection.close()


class Connection:
    """One that is kept open between requests, as a proxy before the server keeps it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection(HOST, port))

    async def get(self, path: str) -> float:
        """Milliseconds until the whole answer was there."""
        begun = time.monotonic_ns()
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        # The end of an answer in chunks, which no answer of ours contains.
        answer = await self._reader.readuntil(b"\r\n0\r\n\r\n")
        if b" 200 " not in answer.partition(b"\r\n")[0]:
            raise HandError(f"{path}: {answer.decode()[:500]}")
        return (time.monotonic_ns() - begun) / 1e6

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
