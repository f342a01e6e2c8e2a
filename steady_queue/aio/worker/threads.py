"""Threads for sync functions: a fixed number, fed directly, and never waited for when the process must end.

Functions that take less time than asking the database for more are fed ahead: with 8 threads and functions that do
nothing, claiming for idle threads alone left them idle most of the time and reached a quarter of the rate (measured).
What waits here has not begun and can be taken back.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
R = TypeVar("R")

#: What the newest item counts in the average of their lengths, and how many must have ended before that means anything.
NEWEST_WEIGHT, MIN_SAMPLES = 0.05, 20
#: How many items may wait for each thread.
MAX_AHEAD_PER_THREAD = 16


class Threads(Generic[T, R]):
    """Runs `work(item)` in one of `count` threads and hands (item, result) to `done` in the event loop.

    Results that come while the loop is busy are handed over together: waking the loop costs more than a small task.
    """

    def __init__(
        self, count: int, work: Callable[[T], R], done: Callable[[T, R], None], *, leave: Callable[[], None]
    ) -> None:
        self.count = count
        self._work = work
        self._done = done
        self._leave = leave
        self._items: SimpleQueue[T | None] = SimpleQueue()
        self._results: deque[tuple[T, R, float]] = deque()
        self._loop = asyncio.get_running_loop()
        self._is_waking = False
        self._lock = threading.Lock()
        self._started = 0
        self._ended = 0
        self._average = 0.0

    def submit(self, item: T) -> None:
        """Give an item to a thread, the first that is free."""
        if self._started < self.count:
            self._started += 1
            name = f"steady-queue-thread-{self._started}"
            # Daemon: a function that never returns must not keep the interpreter alive.
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._items.put(item)

    def ahead(self, seconds: float) -> int:
        """How many more items than there are threads will have begun so many seconds from now, as far as is known."""
        if self._ended < MIN_SAMPLES or self._average <= 0:
            return 0
        return min(MAX_AHEAD_PER_THREAD * self.count, int(self.count * seconds / self._average))

    def remove_waiting(self) -> list[T]:
        """The items that no thread has begun, which are forgotten here; what is known of their lengths as well."""
        self._ended = 0
        items: list[T] = []
        while True:
            try:
                item = self._items.get_nowait()
            except Empty:
                return items
            if item is not None:
                items.append(item)

    def over(self) -> list[T]:
        """The items whose work is done, and that the loop does not know of yet. May be asked from any thread."""
        return [item for item, _, _ in list(self._results)]

    def close(self) -> None:
        """Let idle threads end; each calls `leave` at its end."""
        for _ in range(self._started):
            self._items.put(None)

    def _serve(self) -> None:
        while (item := self._items.get()) is not None:
            began = perf_counter()
            result = self._work(item)
            self._results.append((item, result, perf_counter() - began))
            with self._lock:
                wake, self._is_waking = not self._is_waking, True
            if wake:
                try:
                    self._loop.call_soon_threadsafe(self._hand_over)
                except RuntimeError:
                    break  # the loop is closed: nobody waits for the result any more
        self._leave()

    def _hand_over(self) -> None:
        with self._lock:
            self._is_waking = False
        while self._results:
            item, result, took = self._results.popleft()
            self._ended += 1
            self._average += (took - self._average) * NEWEST_WEIGHT
            self._done(item, result)
