"""Folding of statistics: the minutes of all processes are added up to hours, and old hours are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.aio.maintenance.steps import StepSkipped
from steady_queue.store.operations.maintenance.statistics import clear_hours, fold_minutes
from steady_queue.store.operations.processes.prune import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from steady_queue.aio.maintenance.steps import StepDriver
    from steady_queue.store.statement import Operation

#: Batches in one turn.
BATCHES = 20


class StatisticsFolding:
    """Two steps of a maintenance turn."""

    def __init__(self, driver: StepDriver) -> None:
        self._driver = driver

    async def fold(self) -> None:
        """Add the minutes of hours that ended long ago up to hours."""
        await self._repeat(lambda: fold_minutes(self._driver.sql))

    async def clear(self, keep: timedelta | None) -> None:
        """Delete the hours that began longer than `keep` ago."""
        if keep is not None:
            await self._repeat(lambda: clear_hours(self._driver.sql, keep))

    async def _repeat(self, build: Callable[[], Operation[int | None]]) -> None:
        for _ in range(BATCHES):
            count = await self._driver.run(build())
            if count is None:
                raise StepSkipped
            if count < BATCH_ROWS:
                return
