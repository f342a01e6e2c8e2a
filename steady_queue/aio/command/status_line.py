"""Status: one line at the bottom of a terminal that tells what goes on."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.aio.supervisor.child import ProcessFigures
    from steady_queue.aio.timing import Clock


class Status:
    """Written every second, over the one before; log lines push it down."""

    def __init__(
        self, *, facts: Callable[[], ProcessFigures], stream: IO[str], clock: Clock, every: float = 1.0
    ) -> None:
        self._facts = facts
        self._stream = stream
        self._clock = clock
        self._every = every

    async def run(self) -> None:
        before, since = self._facts().ended, self._clock.monotonic()
        try:
            while True:
                await asyncio.sleep(self._every)
                facts, now = self._facts(), self._clock.monotonic()
                self._write(line(facts, rate=max(0.0, (facts.ended - before) / max(now - since, 0.001))))
                before, since = facts.ended, now
        finally:
            self._write("")

    def _write(self, text: str) -> None:
        # The cursor goes back, so that whatever another process prints begins at the start of the line.
        with suppress(OSError, ValueError):  # the terminal is gone
            self._stream.write(f"\r{text}\x1b[K\r")
            self._stream.flush()


def line(facts: ProcessFigures, *, rate: float) -> str:
    many = f"{facts.processes} process{'es' if facts.processes != 1 else ''}"
    return (
        f"{time.strftime('%H:%M:%S')}  {many} · {facts.running:,} running · {facts.ended:,} done"
        f" ({rate:,.0f}/s) · {facts.failed:,} failed"
    )
