"""The worker process of PgQueuer. The benchmark chooses its batch size and its concurrency."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
from harness import StartLog, exit_on_error, read_options, run, run_worker
from pgqueuer import AsyncpgDriver, PgQueuer, Queries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pgqueuer import Job


class PgQueuerWorker:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.start_log = StartLog()

    async def prepare(self) -> None:
        self.connection = await asyncpg.connect(**self.options["connection"])
        self.queries = Queries(AsyncpgDriver(self.connection))
        await self.queries.install()
        if jobs := self.options["stored_jobs"]:
            await self.queries.enqueue(["noop"] * jobs, [b"%d" % number for number in range(jobs)], [0] * jobs)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        queue = PgQueuer(AsyncpgDriver(self.connection))

        @queue.entrypoint("noop")
        async def noop(job: Job) -> None:
            self.start_log.record(int(job.payload or b"-1"))

        work = queue.run(
            batch_size=self.options["batch_size"],
            max_concurrent_tasks=self.options["concurrency"],
        )
        working = asyncio.create_task(exit_on_error(work))
        try:
            yield
        finally:
            queue.shutdown.set()
            await working

    def report(self) -> dict[str, Any]:
        return {}


if __name__ == "__main__":
    options = read_options()
    run(run_worker(PgQueuerWorker(options), options["expected"]))
