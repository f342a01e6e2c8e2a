"""Oban's worker, with as many at once as ours."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from harness import Tally, conduct, feed, orders, run
from oban import Oban, job
from oban.schema import install

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONCURRENCY = 500

tally = Tally()


@job(queue="default")
async def nothing(number: int) -> None:
    tally.count(number)


class ObanSide:
    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.tally = tally

    async def prepare(self) -> None:
        account = self.given["connection"]
        address = "postgresql://{user}:{password}@{host}:{port}/{database}".format(**account)
        self.pool = await Oban.create_pool(dsn=address, min_size=2, max_size=10)
        if not self.given.get("prepared"):
            await install(self.pool)
        self.client = Oban(pool=self.pool, name="client")
        if self.given["jobs"]:
            await self.client.enqueue_many(nothing.new(number=number) for number in range(self.given["jobs"]))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with Oban(pool=self.pool, queues={"default": CONCURRENCY}):
            yield
        await self.pool.close()

    async def store(self, number: int) -> None:
        await self.client.enqueue(nothing.new(number=number))

    def report(self) -> dict[str, Any]:
        return {"starts": self.tally.starts} if self.given.get("starts") else {}


async def main() -> None:
    given = orders()
    side = ObanSide(given)
    if given["role"] == "feed":
        await side.prepare()
        await feed(side.store, given["numbers"], given["every"])
        await side.pool.close()
    else:
        await conduct(side, given["expected"])


if __name__ == "__main__":
    run(main())
