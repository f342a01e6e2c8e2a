"""The worker process of Procrastinate, with the same concurrency as Steady Queue."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from harness import StartLog, exit_on_error, read_options, run, run_worker
from procrastinate import App, PsycopgConnector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CONCURRENCY = 500


class ProcrastinateWorker:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.start_log = StartLog()

    async def prepare(self) -> None:
        account = dict(self.options["connection"])
        account["dbname"] = account.pop("database")
        self.app = App(connector=PsycopgConnector(kwargs=account, min_size=4, max_size=10))

        @self.app.task(name="noop")
        async def noop(number: int) -> None:
            self.start_log.record(number)

        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()
        await noop.batch_defer_async(*({"number": number} for number in range(self.options["stored_jobs"])))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        work = self.app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        working = asyncio.create_task(exit_on_error(work))
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
    options = read_options()
    run(run_worker(ProcrastinateWorker(options), options["expected"]))
