"""Reporter: tells errors inside the runtime to the `on_error` hooks, in a thread of its own.

They may take their time, and an error may come from anywhere: the event loop, a thread, a web request. So nobody waits
for them. An error of the same type from the same place is told at most every few seconds.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from steady_queue.events.names import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.events import Fault

    ErrorHook: TypeAlias = Callable[[BaseException, str], object]

logger = logging.getLogger("steady_queue")

#: How long the same error from the same place is not told again, in seconds.
AGAIN = 10.0
#: Errors that may wait to be told, and places that are remembered.
WAITING, PLACES = 100, 1000


class Reporter:
    """A subscriber of events."""

    def __init__(self) -> None:
        self.hooks: tuple[ErrorHook, ...] = ()
        self._waiting: deque[tuple[BaseException, str]] = deque()
        self._is_busy = False
        self._told: dict[tuple[str, type[BaseException]], float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __call__(self, fault: Fault) -> None:
        place = (fault.origin, type(fault.exception))
        now = time.monotonic()
        with self._changed:
            if now - self._told.get(place, -inf) < AGAIN or len(self._waiting) >= WAITING:
                return
            if len(self._told) >= PLACES:
                self._told.clear()
            self._told[place] = now
            self._waiting.append((fault.exception, fault.origin))
            if self._thread is None or not self._thread.is_alive():  # a fork has lost it
                self._thread = threading.Thread(target=self._serve, name="steady-queue-errors", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    @property
    def is_busy(self) -> bool:
        return self._is_busy or bool(self._waiting)

    def flush(self, seconds: float) -> None:
        """Wait until everything is told, or for so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_busy, seconds)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._waiting))
                self._is_busy = True
                error, origin = self._waiting.popleft()
            for hook in self.hooks:
                self._call(hook, error, origin)
            del error
            if not self._waiting:
                with suppress(Exception):
                    _let_connections_go()

    def _call(self, hook: ErrorHook, error: BaseException, origin: str) -> None:
        try:
            answer = hook(error, origin)
            if inspect.iscoroutine(answer):
                asyncio.run(answer)
        except BaseException:
            with suppress(BaseException):
                logger.exception("the on_error hook %s failed", name_of(hook))


def _let_connections_go() -> None:
    from django.db import connections  # settings.py may register hooks

    connections.close_all()
