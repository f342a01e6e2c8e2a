"""Delete tasks that finished or failed long ago, by hand. Maintenance does the same, as the settings say.

Tasks are deleted in batches, each a short transaction of its own: other transactions do not wait for long, and an
interrupted call can be repeated.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from steady_queue.actions.filters import check_queue_name, task_path_of, to_utc
from steady_queue.db.transactions import Pause, arun, run, run_one
from steady_queue.store.operations.actions import cleanup as store
from steady_queue.store.operations.actions.cleanup import CleanupPosition, EndedFilter

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from steady_queue.db.transactions import Action, Scope, Steps
    from steady_queue.jobs.compat import Task
    from steady_queue.store.operations.actions.cleanup import ClearedWindow
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

    Clear = Callable[[Dialect, EndedFilter, CleanupPosition, int], Operation[ClearedWindow]]
    #: Called after each batch with the number of tasks that it deleted.
    Progress = Callable[[int], None]


def build_ended_filter(
    before: datetime | timedelta, queue: str | None = None, task: Task[..., Any] | str | None = None
) -> EndedFilter:
    """Select tasks that ended before a point in time, or longer ago than a timedelta by the database's clock."""
    return EndedFilter(
        before=before if isinstance(before, timedelta) else to_utc("before", before),
        queue=None if queue is None else check_queue_name(queue),
        task_path=None if task is None else task_path_of(task),
    )


def clear_finished(ended: EndedFilter, *, batch: int = 500, pause: float = 0, progress: Progress | None = None) -> int:
    """Delete finished tasks; returns how many. `pause` is the number of seconds between two batches."""
    return run(_clear(store.clear_finished, ended, batch, pause, progress))


async def aclear_finished(
    ended: EndedFilter, *, batch: int = 500, pause: float = 0, progress: Progress | None = None
) -> int:
    return await arun(_clear(store.clear_finished, ended, batch, pause, progress))


def clear_failed(ended: EndedFilter, *, batch: int = 500, pause: float = 0, progress: Progress | None = None) -> int:
    """Delete failed tasks; returns how many."""
    return run(_clear(store.clear_failed, ended, batch, pause, progress))


async def aclear_failed(
    ended: EndedFilter, *, batch: int = 500, pause: float = 0, progress: Progress | None = None
) -> int:
    return await arun(_clear(store.clear_failed, ended, batch, pause, progress))


def count_finished(ended: EndedFilter) -> int:
    """Count the finished tasks that `clear_finished` would delete."""
    return run_one(lambda sql: store.count_finished(sql, ended))


def count_failed(ended: EndedFilter) -> int:
    """Count the failed tasks that `clear_failed` would delete."""
    return run_one(lambda sql: store.count_failed(sql, ended))


def _clear(clear: Clear, ended: EndedFilter, batch: int, pause: float, progress: Progress | None) -> Action[int]:
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise ValueError(f"batch must be an integer of at least 1, not {batch!r}")

    def steps(scope: Scope) -> Steps[int]:
        total = 0
        position: CleanupPosition | None = CleanupPosition()
        while position is not None:
            window: ClearedWindow = yield clear(scope.sql, ended, position, batch)
            total += window.jobs
            position = window.next
            if progress is not None:
                progress(window.jobs)
            if pause and position is not None:
                yield Pause(pause)
        return total

    return steps
