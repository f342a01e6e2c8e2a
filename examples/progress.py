"""The progress line."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from typing import TYPE_CHECKING

from colours import style

if TYPE_CHECKING:
    from recorder import Recorder

REDRAW_SECONDS = 0.05
WIDTH = 30


class Progress:
    """The number of tasks that have ended: one line, redrawn in place, on a terminal; else one line per tenth."""

    def __init__(self, total: int, recorder: Recorder) -> None:
        self.total = total
        self._recorder = recorder
        self._tenths_printed = 0
        self._began = time.perf_counter()

    async def show(self) -> None:
        """Update the line until all tasks have ended."""
        is_terminal = sys.stdout.isatty()
        update = self._redraw if is_terminal else self._print_tenths
        try:
            update()
            while len(self._recorder.ended) < self.total:
                await asyncio.sleep(REDRAW_SECONDS)
                update()
        finally:
            print("\n" if is_terminal else "", flush=True)

    def _redraw(self) -> None:
        columns = shutil.get_terminal_size().columns
        line = self._line()[: columns - 1]  # cut before it is coloured: escape sequences have no width
        print(f"\r{style.green(line[:WIDTH])}{line[WIDTH:]}", end="", flush=True)

    def _print_tenths(self) -> None:
        tenths = 10 * len(self._recorder.ended) // self.total
        if tenths > self._tenths_printed:
            self._tenths_printed = tenths
            print(self._line(), flush=True)

    def _line(self) -> str:
        full, empty = "█░" if (sys.stdout.encoding or "").lower().startswith("utf") else "#."
        ended, seconds = len(self._recorder.ended), time.perf_counter() - self._began
        bar = (full * (WIDTH * ended // self.total)).ljust(WIDTH, empty)
        return f"{bar} {ended:>5,} of {self.total:,}  {self._recorder.running:>3} running  {seconds:4.1f} s"
