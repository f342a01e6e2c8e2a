"""Threads for sync functions: a fixed number, with a queue of their own. A process that ends does not wait for them.

If functions take less time than a claim, more of them are claimed than there are threads: with 8 threads and functions
that do nothing, claiming for idle threads alone left them idle most of the time and reached a quarter of the rate
(measured). Items that wait here have not started and can be removed.
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

#: The weight of the newest item in the average duration, and the number of items before the average is used.
NEWEST_WEIGHT, MIN_SAMPLES = 0.05, 20
#: How many items may wait for each thread.
MAX_AHEAD_PER_THREAD = 16


class Threads(Generic[T, R]):
    """Runs `work(item)` in one of `count` threads and calls `done(item, result, seconds)` in the event loop.

    The loop reads all results that arrive while it is busy together: waking the loop costs more than a small task.
    """

    def __init__(
        self, count: int, work: Callable[[T], R], done: Callable[[T, R, float], None], *, on_exit: Callable[[], None]
    ) -> None:
        self.count = count
        self._work = work
        self._done = done
        self._on_exit = on_exit
        self._items: SimpleQueue[T | None] = SimpleQueue()
        self._results: deque[tuple[T, R, float]] = deque()
        self._loop = asyncio.get_running_loop()
        self._is_waking = False
        self._lock = threading.Lock()
        self._started = 0
        self._ended = 0
        self._average = 0.0

    def submit(self, item: T) -> None:
        """Add an item; the first free thread takes it."""
        if self._started < self.count:
            self._started += 1
            name = f"steady-queue-thread-{self._started}"
            # Daemon: a function that never returns must not keep the interpreter alive.
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._items.put(item)

    def ahead(self, seconds: float) -> int:
        """Return how many items more than there are threads will start in so many seconds, by the average duration."""
        if self._ended < MIN_SAMPLES or self._average <= 0:
            return 0
        return min(MAX_AHEAD_PER_THREAD * self.count, int(self.count * seconds / self._average))

    def remove_waiting(self) -> list[T]:
        """Remove and return the items that no thread has started; the average duration is forgotten as well."""
        self._ended = 0
        return [item for item in self._take_waiting() if item is not None]

    def remove_waiting_if(self, is_unwanted: Callable[[T], bool]) -> list[T]:
        """Remove and return some of the items that no thread has started; the others keep their order."""
        removed: list[T] = []
        for item in self._take_waiting():
            if item is not None and is_unwanted(item):
                removed.append(item)
            else:
                self._items.put(item)
        return removed

    def _take_waiting(self) -> list[T | None]:
        items: list[T | None] = []
        while True:
            try:
                items.append(self._items.get_nowait())
            except Empty:
                return items

    def finished_items(self) -> list[T]:
        """Return the items that are done and whose results the loop has not read yet. May be called from any thread."""
        return [item for item, _, _ in list(self._results)]

    def close(self) -> None:
        """Let idle threads exit; each calls `on_exit` before it does."""
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
                    self._loop.call_soon_threadsafe(self._read_results)
                except RuntimeError:
                    break  # the loop is closed: nothing reads the result any more
        self._on_exit()

    def _read_results(self) -> None:
        with self._lock:
            self._is_waking = False
        while self._results:
            item, result, took = self._results.popleft()
            self._ended += 1
            self._average += (took - self._average) * NEWEST_WEIGHT
            self._done(item, result, took)
