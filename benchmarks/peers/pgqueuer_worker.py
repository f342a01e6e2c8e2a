"""PgQueuer's worker, in a setting that it is given."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
from harness import Tally, conduct, orders, run, unfailing
from pgqueuer import AsyncpgDriver, PgQueuer, Queries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pgqueuer import Job


class PgQueuerSide:
    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.tally = Tally()

    async def prepare(self) -> None:
        self.connection = await asyncpg.connect(**self.given["connection"])
        self.queries = Queries(AsyncpgDriver(self.connection))
        await self.queries.install()
        if jobs := self.given["jobs"]:
            await self.queries.enqueue(["nothing"] * jobs, [b"%d" % number for number in range(jobs)], [0] * jobs)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        queue = PgQueuer(AsyncpgDriver(self.connection))

        @queue.entrypoint("nothing")
        async def nothing(job: Job) -> None:
            self.tally.count(int(job.payload or b"-1"))

        work = queue.run(
            batch_size=self.given["batch"],
            max_concurrent_tasks=self.given["most"],
        )
        working = asyncio.create_task(unfailing(work))
        try:
            yield
        finally:
            queue.shutdown.set()
            await working

    def report(self) -> dict[str, Any]:
        return {}


if __name__ == "__main__":
    given = orders()
    run(conduct(PgQueuerSide(given), given["expected"]))
