"""Status line: one line at the bottom of a terminal with the numbers of done, failed, running and waiting tasks."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.aio.command.terminal import CLEAR
from steady_queue.events.wording import counted, rounded_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steady_queue.aio.command.terminal import Style, Terminal
    from steady_queue.aio.command.waiting_tasks import WaitingTasks
    from steady_queue.aio.supervisor.child import ProcessFigures
    from steady_queue.aio.timing import Clock

#: The rate is that of so many seconds: children report their numbers once a second, not at the same moment.
RATE_SECONDS = 5.0
SEPARATOR = " · "


class Part(NamedTuple):
    """A part of the line. The parts with the lowest rank are left out first if the terminal is too narrow."""

    rank: int
    text: str
    paint: Callable[[str], str] = str


class StatusLine:
    """Written every second over the previous one; the output of the processes clears it first."""

    def __init__(
        self,
        *,
        figures: Callable[[], ProcessFigures],
        waiting: WaitingTasks,
        terminal: Terminal,
        clock: Clock,
        every_seconds: float = 1.0,
    ) -> None:
        self._figures = figures
        self._waiting = waiting
        self._terminal = terminal
        self._clock = clock
        self._every_seconds = every_seconds
        #: When so many tasks had ended.
        self._ended: deque[tuple[float, int]] = deque()

    async def run(self) -> None:
        try:
            while True:
                self._write(self._line())
                await asyncio.sleep(self._every_seconds)
        finally:
            self._write("")

    def _line(self) -> str:
        figures, waiting = self._figures(), self._waiting
        problem = "database unavailable" if waiting.is_unavailable else None
        parts = parts_of(
            figures, self._rate(figures), waiting=waiting.text, problem=problem, style=self._terminal.style
        )
        return format_parts(parts, self._terminal.columns - 1)

    def _rate(self, figures: ProcessFigures) -> float:
        now, ended = self._clock.monotonic(), figures.done + figures.failed
        self._ended.append((now, ended))
        while len(self._ended) > 2 and now - self._ended[1][0] >= RATE_SECONDS:
            self._ended.popleft()
        since, before = self._ended[0]
        return rounded_rate(max(0, ended - before), now - since)

    def _write(self, text: str) -> None:
        # The cursor returns to the start of the line, so that the output of another process begins there.
        with suppress(OSError, ValueError):  # the terminal was closed
            self._terminal.stream.write(f"{CLEAR}{text}\r")
            self._terminal.stream.flush()


def parts_of(
    figures: ProcessFigures, rate: float, *, waiting: str | None, problem: str | None, style: Style
) -> list[Part]:
    """The parts of the line, in their order."""
    parts = [
        Part(1, time.strftime("%H:%M:%S"), style.dim),
        Part(2, counted(figures.processes, "process", "processes"), style.cyan),
        Part(9, f"{figures.done:,} done", style.green),
        Part(8, f"{figures.failed:,} failed", style.red if figures.failed else str),
        Part(7, f"{figures.running:,} running", style.bold if figures.running else str),
    ]
    if waiting is not None:
        parts.append(Part(6, waiting))
    if problem is not None:
        parts.append(Part(10, problem, style.red))
    return [*parts, Part(5, f"{rate:,g}/s")]


def format_parts(parts: Sequence[Part], columns: int) -> str:
    """The line, without the least important parts if it would be longer than this: a longer line would wrap."""
    left = list(parts)
    while len(left) > 1 and len(SEPARATOR.join(part.text for part in left)) > columns:
        left.remove(min(left))
    if len(left) == 1:
        return left[0].paint(left[0].text[: max(0, columns)])
    return SEPARATOR.join(part.paint(part.text) for part in left)
