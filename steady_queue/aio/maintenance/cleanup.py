"""Clearing by maintenance: jobs that ended long ago are deleted, a few batches in a turn.

A batch whose deletion the database rejects is halved until the bad job is alone. A foreign key of another table may
reference it: it is left out, and the error is raised after the rest was deleted. A turn executes a limited number of
statements; the next one continues at the same place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.aio.maintenance.batch_splitting import REJECTED
from steady_queue.store.operations.actions import cleanup
from steady_queue.store.operations.actions.cleanup import CleanupPosition, EndedFilter
from steady_queue.store.operations.maintenance import steps as maintenance
from steady_queue.store.operations.processes.prune import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from steady_queue.aio.maintenance.batch_splitting import Driver
    from steady_queue.store.operations.actions.cleanup import ClearedWindow
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

#: Batches in one turn: with one it would fall behind under load. Between two of them, other statements can use the
#: connection.
BATCHES = 20
#: Statements in a turn in which some are rejected.
MAX_STATEMENTS = 200


class Kind(NamedTuple):
    """The operations for jobs that ended in one way."""

    name: str
    #: Deletes some from a place on; None if another process does maintenance at this moment.
    clear: Callable[[Dialect, timedelta, CleanupPosition, int], Operation[ClearedWindow | None]]
    #: Returns the place of the next one.
    next: Callable[[Dialect, EndedFilter, CleanupPosition], Operation[CleanupPosition | None]]


FINISHED = Kind("finished", maintenance.clear_finished, cleanup.next_finished)
FAILED = Kind("failed", maintenance.clear_failed, cleanup.next_failed)


class Walk(NamedTuple):
    """How far jobs were deleted in parts, the size of the next part, and the last error before it, if any."""

    place: CleanupPosition = CleanupPosition()
    size: int = BATCH_ROWS
    rejection: Exception | None = None


class Clearing:
    """Deletes jobs of one kind; `on_cleared` is called with the size of each batch."""

    def __init__(self, kind: Kind, *, driver: Driver, on_cleared: Callable[[int], None]) -> None:
        self._kind = kind
        self._driver = driver
        self._on_cleared = on_cleared
        #: Kept between turns: jobs that cannot be deleted may be more than one turn can step over.
        self._walk = Walk()

    async def clear(self, keep: timedelta) -> bool:
        """Delete jobs that ended longer than `keep` ago. False: another process does it at this moment."""
        for _ in range(BATCHES):
            try:
                cleared = await self._driver.run(
                    self._kind.clear(self._driver.sql, keep, CleanupPosition(), BATCH_ROWS)
                )
            except REJECTED:
                return await self._clear_in_parts(keep)
            if cleared is None:
                return False
            if cleared.jobs:
                self._on_cleared(cleared.jobs)
            if cleared.jobs < BATCH_ROWS:
                break
        self._walk = Walk()
        return True

    async def _clear_in_parts(self, keep: timedelta) -> bool:
        statements, rejection = 0, self._walk.rejection
        while statements < MAX_STATEMENTS:
            place, size, rejection = self._walk
            after: CleanupPosition | None
            statements += 1
            try:
                cleared = await self._driver.run(self._kind.clear(self._driver.sql, keep, place, size))
            except REJECTED as error:
                if size > 1:
                    self._walk = Walk(place, size // 2, rejection)
                    continue
                statements += 1
                rejection, after = error, await self._step_over(keep, place)
            else:
                if cleared is None:
                    return False
                if cleared.jobs:
                    self._on_cleared(cleared.jobs)
                # A good part may be followed by another.
                size, after = min(BATCH_ROWS, size * 2), cleared.next
            if after is None:
                self._walk = Walk()
                break
            self._walk = Walk(after, size, rejection)
        if rejection is not None:
            raise rejection
        return True

    async def _step_over(self, keep: timedelta, place: CleanupPosition) -> CleanupPosition | None:
        """Return the place of the job that is rejected alone; None if there is none, or it cannot be read either."""
        try:
            return await self._driver.run(self._kind.next(self._driver.sql, EndedFilter(keep), place))
        except REJECTED:
            return None
