"""Cleanup by hand: delete tasks that ended long ago, finished or failed. Maintenance does the same by the settings.

In batches, each a short transaction of its own, so that it holds nobody up and can be stopped and begun again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from steady_queue.actions.filters import a_moment, a_path, a_queue
from steady_queue.db.transactions import Rest, arun, run
from steady_queue.store.operations import cleanup as store
from steady_queue.store.operations.cleanup import CleanupPosition, EndedFilter

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from steady_queue.db.transactions import Desk, Errand, Steps
    from steady_queue.jobs.compat import Task
    from steady_queue.store.operations.cleanup import ClearedWindow
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

    Before = datetime | timedelta
    Clear = Callable[[Dialect, EndedFilter, CleanupPosition, int], Operation[ClearedWindow]]
    #: Told how many tasks each batch lost.
    Progress = Callable[[int], None]


def old(before: Before, queue: str | None = None, task: Task[..., Any] | str | None = None) -> EndedFilter:
    """Which tasks are to go: ended before a moment, or longer ago than a timedelta by the database's clock."""
    return EndedFilter(
        before=before if isinstance(before, timedelta) else a_moment(before),
        queue=None if queue is None else a_queue(queue),
        task_path=None if task is None else a_path(task),
    )


def clear_finished(which: EndedFilter, *, batch: int = 500, pause: float = 0, progress: Progress | None = None) -> int:
    """Delete finished tasks; returns how many. `pause` is in seconds, between batches."""
    return run(_clear(store.clear_finished, which, batch, pause, progress))


async def aclear_finished(
    which: EndedFilter, *, batch: int = 500, pause: float = 0, progress: Progress | None = None
) -> int:
    return await arun(_clear(store.clear_finished, which, batch, pause, progress))


def clear_failed(which: EndedFilter, *, batch: int = 500, pause: float = 0, progress: Progress | None = None) -> int:
    """Delete failed tasks; returns how many."""
    return run(_clear(store.clear_failed, which, batch, pause, progress))


async def aclear_failed(
    which: EndedFilter, *, batch: int = 500, pause: float = 0, progress: Progress | None = None
) -> int:
    return await arun(_clear(store.clear_failed, which, batch, pause, progress))


def count_finished(which: EndedFilter) -> int:
    """How many finished tasks would go."""
    return run(_count(store.count_finished, which))


def count_failed(which: EndedFilter) -> int:
    """How many failed tasks would go."""
    return run(_count(store.count_failed, which))


def _clear(clear: Clear, which: EndedFilter, batch: int, pause: float, progress: Progress | None) -> Errand[int]:
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise ValueError(f"the size of a batch must be a whole number of at least 1, not {batch!r}")

    def errand(desk: Desk) -> Steps[int]:
        total = 0
        place: CleanupPosition | None = CleanupPosition()
        while place is not None:
            cleared: ClearedWindow = yield clear(desk.sql, which, place, batch)
            total += cleared.jobs
            place = cleared.next
            if progress is not None:
                progress(cleared.jobs)
            if pause and place is not None:
                yield Rest(pause)
        return total

    return errand


def _count(count: Callable[[Dialect, EndedFilter], Operation[int]], which: EndedFilter) -> Errand[int]:
    def errand(desk: Desk) -> Steps[int]:
        total: int = yield count(desk.sql, which)
        return total

    return errand
