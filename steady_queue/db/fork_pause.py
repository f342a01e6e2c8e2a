"""Fork pause: stops the event loop of another thread between two callbacks while the process forks.

The child has a copy of all locks, but only the thread that forks. What another thread had locked at that moment, inside
OpenSSL for example, would be locked for ever. Between two callbacks of its loop, a thread is in no library.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

#: How long a fork waits for a callback that takes long, and a loop for a fork.
PAUSE_SECONDS = 1.0


class ForkPause:
    """One pause of one event loop, which may be closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._has_begun = threading.Event()
        self._has_ended = threading.Event()
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(self._wait)
            self._has_begun.wait(PAUSE_SECONDS)

    def end(self) -> None:
        self._has_ended.set()

    def _wait(self) -> None:
        self._has_begun.set()
        self._has_ended.wait(PAUSE_SECONDS)
