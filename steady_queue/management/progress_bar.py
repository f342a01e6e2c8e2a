"""A progress bar: one line of a terminal, redrawn in place."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

WIDTH = 30
#: The minimum time between two drawings.
REDRAW_SECONDS = 0.1


class ProgressBar:
    """Counts up to a total that may be wrong, because other processes delete and add rows at the same time."""

    def __init__(self, out: TextIO, label: str, total: int) -> None:
        self._out = out
        self._label = label
        self._total = total
        self._done = 0
        self._drawn_at = 0.0

    def advance(self, count: int) -> None:
        self._done += count
        if time.monotonic() - self._drawn_at >= REDRAW_SECONDS:
            self._draw()

    def end(self) -> None:
        """Clear the line for the output that follows."""
        self._out.write("\r\x1b[K")
        self._out.flush()

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        total = max(self._total, self._done, 1)
        filled = WIDTH * self._done // total
        bar = "#" * filled + "." * (WIDTH - filled)
        self._out.write(f"\r{self._label} [{bar}] {self._done:,} of {total:,}\x1b[K")
        self._out.flush()
