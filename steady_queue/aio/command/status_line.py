"""Status line: one line at the bottom of a terminal with the number of running, ended and failed tasks."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.aio.supervisor.child import ProcessFigures
    from steady_queue.aio.timing import Clock


class StatusLine:
    """Written every second over the previous one; log lines push it down."""

    def __init__(
        self, *, figures: Callable[[], ProcessFigures], stream: IO[str], clock: Clock, every_seconds: float = 1.0
    ) -> None:
        self._figures = figures
        self._stream = stream
        self._clock = clock
        self._every_seconds = every_seconds

    async def run(self) -> None:
        ended_before, since = self._figures().ended, self._clock.monotonic()
        try:
            while True:
                await asyncio.sleep(self._every_seconds)
                figures, now = self._figures(), self._clock.monotonic()
                rate = max(0.0, (figures.ended - ended_before) / max(now - since, 0.001))
                self._write(format_line(figures, rate=rate))
                ended_before, since = figures.ended, now
        finally:
            self._write("")

    def _write(self, text: str) -> None:
        # The cursor returns to the start of the line, so that the output of another process begins there.
        with suppress(OSError, ValueError):  # the terminal was closed
            self._stream.write(f"\r{text}\x1b[K\r")
            self._stream.flush()


def format_line(figures: ProcessFigures, *, rate: float) -> str:
    processes = f"{figures.processes} process{'es' if figures.processes != 1 else ''}"
    return (
        f"{time.strftime('%H:%M:%S')}  {processes} · {figures.running:,} running · {figures.ended:,} done"
        f" ({rate:,.0f}/s) · {figures.failed:,} failed"
    )
