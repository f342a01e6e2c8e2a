"""The worker process of Oban, with the same concurrency as Steady Queue."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from harness import StartLog, enqueue_steadily, read_options, run, run_worker
from oban import Oban, job
from oban.schema import install

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONCURRENCY = 500

start_log = StartLog()


@job(queue="default")
async def noop(number: int) -> None:
    start_log.record(number)


class ObanWorker:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.start_log = start_log

    async def prepare(self) -> None:
        account = self.options["connection"]
        address = "postgresql://{user}:{password}@{host}:{port}/{database}".format(**account)
        self.pool = await Oban.create_pool(dsn=address, min_size=2, max_size=10)
        if not self.options.get("prepared"):
            await install(self.pool)
        self.client = Oban(pool=self.pool, name="client")
        if self.options["stored_jobs"]:
            await self.client.enqueue_many(noop.new(number=number) for number in range(self.options["stored_jobs"]))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with Oban(pool=self.pool, queues={"default": CONCURRENCY}):
            yield
        await self.pool.close()

    async def store(self, number: int) -> None:
        await self.client.enqueue(noop.new(number=number))

    def report(self) -> dict[str, Any]:
        return {"starts": self.start_log.starts} if self.options.get("starts") else {}


async def main() -> None:
    options = read_options()
    worker = ObanWorker(options)
    if options["role"] == "enqueue":
        await worker.prepare()
        await enqueue_steadily(worker.store, options["jobs"], options["interval_seconds"])
        await worker.pool.close()
    else:
        await run_worker(worker, options["expected"])


if __name__ == "__main__":
    run(main())
