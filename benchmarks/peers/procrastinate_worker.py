"""Procrastinate's worker, with as many at once as ours."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from harness import Tally, conduct, orders, run, unfailing
from procrastinate import App, PsycopgConnector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONCURRENCY = 500


class ProcrastinateSide:
    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.tally = Tally()

    async def prepare(self) -> None:
        account = dict(self.given["connection"])
        account["dbname"] = account.pop("database")
        self.app = App(connector=PsycopgConnector(kwargs=account, min_size=4, max_size=10))

        @self.app.task(name="nothing")
        async def nothing(number: int) -> None:
            self.tally.count(number)

        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()
        await nothing.batch_defer_async(*({"number": number} for number in range(self.given["jobs"])))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        work = self.app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        working = asyncio.create_task(unfailing(work))
        try:
            yield
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            await self.app.close_async()

    def report(self) -> dict[str, Any]:
        return {}


if __name__ == "__main__":
    given = orders()
    run(conduct(ProcrastinateSide(given), given["expected"]))
