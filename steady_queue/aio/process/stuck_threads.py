"""Stuck threads: a process with too many threads whose tasks do not end is replaced by its supervisor.

A thread cannot be stopped. The process takes no more tasks, gives those that can still end `shutdown_timeout`, and
exits. Its supervisor then fails the tasks of the stuck threads: released, they would run again without end, because no
attempt would be counted. Without a supervisor the process is only reported: it would not be started again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steady_queue.aio.worker.capacity import Capacity
    from steady_queue.events import Events


class StuckThreads:
    """Counts the stuck threads of all workers of a process."""

    def __init__(
        self,
        capacities: Sequence[Capacity],
        *,
        limit: int | None,
        is_replaceable: bool,
        replace_process: Callable[[], None],
        events: Events,
    ) -> None:
        self._capacities = capacities
        self._limit = limit
        self._is_replaceable = is_replaceable
        self._replace_process = replace_process
        self._events = events
        #: How many were stuck in the last report; 0 when there are fewer than the limit again, so that the next time is
        #: reported too.
        self._reported = 0

    def check(self) -> None:
        """Called when one more thread is stuck, and when one that was stuck has ended its task."""
        stuck = sum(capacity.stuck_threads for capacity in self._capacities)
        has_reached = self._has_reached_limit(stuck)
        if not has_reached or stuck <= self._reported:
            self._reported = stuck if has_reached else 0
            return
        self._reported = stuck
        threads = sum(capacity.threads for capacity in self._capacities)
        self._events.emit(events.ThreadsStuck(stuck=stuck, threads=threads, is_replaced=self._is_replaceable))
        if self._is_replaceable:
            reason = f"{stuck} of its {threads} threads run tasks that have timed out and do not end"
            self._events.emit(events.ProcessRecycling(reason=reason))
            self._is_replaceable = False  # once
            self._replace_process()

    def _has_reached_limit(self, stuck: int) -> bool:
        if self._limit is not None:
            return stuck >= self._limit
        return any(capacity.threads > 0 and capacity.stuck_threads >= capacity.threads for capacity in self._capacities)
