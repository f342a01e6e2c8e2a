"""The line that moves while tasks run."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from witness import Witness

REDRAW_SECONDS = 0.05
WIDTH = 30


class Progress:
    """How many of the tasks have ended: on a terminal one line, redrawn in place; elsewhere one for each tenth."""

    def __init__(self, total: int, witness: Witness) -> None:
        self.total = total
        self._witness = witness
        self._tenths_told = 0
        self._began = time.perf_counter()

    async def show(self) -> None:
        """Keep the line up to date until all tasks have ended."""
        is_terminal = sys.stdout.isatty()
        show_now = self._redraw if is_terminal else self._tell_tenths
        try:
            show_now()
            while len(self._witness.ended) < self.total:
                await asyncio.sleep(REDRAW_SECONDS)
                show_now()
        finally:
            print("\n" if is_terminal else "", flush=True)

    def _redraw(self) -> None:
        columns = shutil.get_terminal_size().columns
        print(f"\r{self._line()[: columns - 1]}", end="", flush=True)

    def _tell_tenths(self) -> None:
        tenths = 10 * len(self._witness.ended) // self.total
        if tenths > self._tenths_told:
            self._tenths_told = tenths
            print(self._line(), flush=True)

    def _line(self) -> str:
        full, empty = "█░" if (sys.stdout.encoding or "").lower().startswith("utf") else "#."
        ended, seconds = len(self._witness.ended), time.perf_counter() - self._began
        bar = (full * (WIDTH * ended // self.total)).ljust(WIDTH, empty)
        return f"{bar} {ended:>5,} of {self.total:,}  {self._witness.running:>3} running  {seconds:4.1f} s"
