"""Threads for sync functions: a fixed number, fed directly, and never waited for when the process must end."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
R = TypeVar("R")


class Threads(Generic[T, R]):
    """Runs `work(item)` in one of `count` threads and hands (item, result) to `done` in the event loop.

    Results that come while the loop is busy are handed over together: waking the loop costs more than a small task.
    """

    def __init__(self, count: int, work: Callable[[T], R], done: Callable[[T, R], None]) -> None:
        self.count = count
        self._work = work
        self._done = done
        self._items: SimpleQueue[T | None] = SimpleQueue()
        self._results: deque[tuple[T, R]] = deque()
        self._loop = asyncio.get_running_loop()
        self._is_waking = False
        self._lock = threading.Lock()
        self._started = 0

    def submit(self, item: T) -> None:
        """Give an item to a thread. The caller sees to it that there is a free one."""
        if self._started < self.count:
            self._started += 1
            name = f"steady-queue-thread-{self._started}"
            # Daemon: a function that never returns must not keep the interpreter alive.
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._items.put(item)

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._started):
            self._items.put(None)

    def _serve(self) -> None:
        while (item := self._items.get()) is not None:
            self._results.append((item, self._work(item)))
            with self._lock:
                wake, self._is_waking = not self._is_waking, True
            if wake:
                try:
                    self._loop.call_soon_threadsafe(self._hand_over)
                except RuntimeError:
                    return  # the loop is closed: nobody waits for the result any more

    def _hand_over(self) -> None:
        with self._lock:
            self._is_waking = False
        while self._results:
            self._done(*self._results.popleft())
