"""Clearing by maintenance: jobs that ended long ago are deleted, a few batches in a turn.

A batch that the database refuses to delete is halved until the bad job is alone. A foreign key of another table may
hold it: it is stepped over, and what was said of it is raised when all others are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue.aio.splitting import REFUSED
from steady_queue.store import cleanup, maintenance
from steady_queue.store.burial import BATCH
from steady_queue.store.cleanup import Old, Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from steady_queue.aio.splitting import Run
    from steady_queue.store.cleanup import Cleared
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

#: Batches in one turn: one would fall behind under load, and the connection is free for a heartbeat between them.
BATCHES = 20
#: Statements in a turn in which some are refused.
MOST_TRIES = 200


class Kind(NamedTuple):
    """The operations for jobs that ended in one way."""

    name: str
    #: Deletes the oldest, unless another process is just doing it.
    clear: Callable[[Dialect, timedelta], Operation[int]]
    #: Deletes some from a place on.
    clear_from: Callable[[Dialect, Old, Place, int], Operation[Cleared]]
    #: Tells the place of the next one.
    next: Callable[[Dialect, Old, Place], Operation[Place | None]]


FINISHED = Kind("finished", maintenance.clear_finished, cleanup.clear_finished, cleanup.next_finished)
FAILED = Kind("failed", maintenance.clear_failed, cleanup.clear_failed, cleanup.next_failed)


async def clear(run: Run, sql: Dialect, kind: Kind, keep: timedelta, tell: Callable[[int], Any]) -> None:
    """Delete jobs that ended longer than `keep` ago; `tell` is called with the size of each batch."""
    for _ in range(BATCHES):
        try:
            count = await run(kind.clear(sql, keep))
        except REFUSED:
            await _clear_apart(run, sql, kind, keep, tell)
            return
        if count:
            tell(count)
        if count < BATCH:
            return


async def _clear_apart(run: Run, sql: Dialect, kind: Kind, keep: timedelta, tell: Callable[[int], Any]) -> None:
    place, size, refusal = Place(), BATCH, None
    for _ in range(MOST_TRIES):
        try:
            cleared = await run(kind.clear_from(sql, Old(keep), place, size))
        except REFUSED as error:
            if size > 1:
                size //= 2
                continue
            refusal, after = error, await run(kind.next(sql, Old(keep), place))
        else:
            if cleared.jobs:
                tell(cleared.jobs)
            # A good part may be followed by another.
            size, after = min(BATCH, size * 2), cleared.next
        if after is None:
            break
        place = after
    if refusal is not None:
        raise refusal
