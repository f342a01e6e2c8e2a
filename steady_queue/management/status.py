"""`manage.py steady_queue status`: the queue at a glance, once or until Ctrl-C."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.db import DatabaseError, InterfaceError, connections

import steady_queue
from steady_queue.aio.command.terminal import can_redraw
from steady_queue.db.aliases import queue_alias
from steady_queue.errors import SteadyQueueError
from steady_queue.management.process_commands import process_lines
from steady_queue.management.queue_commands import queue_lines
from steady_queue.management.shell_output import ShellOutput, moment_text
from steady_queue.management.tables import COLOURS, Cell, Column, cut_to, sparkline, wrap
from steady_queue.monitoring.overview import read_overview
from steady_queue.monitoring.states import level_of
from steady_queue.monitoring.statistics import rate_of, rates_by_task
from steady_queue.monitoring.text import show_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from django.core.management.base import OutputWrapper

    from steady_queue.monitoring.overview import Overview
    from steady_queue.monitoring.statistics import Point, Rate

REDRAW_SECONDS = 2.0
#: Tasks with the most attempts in the last hour that are shown; JSON has all.
MAX_TASKS = 10
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def show_status(out: OutputWrapper, err: OutputWrapper, options: Mapping[str, Any]) -> int:
    """Write the overview; with --watch, every two seconds until Ctrl-C. Returns the exit status."""
    output = ShellOutput.of(out, err, options)
    if options["watch"]:
        if output.as_json or not can_redraw(out, os.environ):
            raise CommandError("--watch needs a terminal, and is not possible with --json")
        _watch(output)
    elif output.as_json:
        overview = read_overview()
        tasks = rates_by_task(overview.now)
        output.write_json({**overview.as_json(), "tasks": {path: rate._asdict() for path, rate in tasks.items()}})
    else:
        output.write(*_read_lines(output))
    return 0


def _watch(output: ShellOutput) -> None:
    output.out.write(f"{_HOME}{_CLEAR_BELOW}", ending="")
    try:
        while True:
            # A connection that was lost is opened again.
            connections[queue_alias()].close_if_unusable_or_obsolete()
            try:
                lines = _read_lines(output)
            except (SteadyQueueError, DatabaseError, InterfaceError) as error:
                problem = cut_to(show_line(f"The database cannot be read: {error}"), output.width or 80)
                lines = [output.style.red(problem)]
            # One line fewer than the terminal has: the last line break would scroll it.
            shown = [f"{output.encodable(line)}{_CLEAR_LINE}\n" for line in lines[: max(1, output.height - 1)]]
            output.out.write(f"{_HOME}{''.join(shown)}{_CLEAR_BELOW}", ending="")
            output.out.flush()
            time.sleep(REDRAW_SECONDS)
    except KeyboardInterrupt:
        output.out.write("")


def _read_lines(output: ShellOutput) -> list[str]:
    overview = read_overview()
    return list(_overview_lines(output, overview, rates_by_task(overview.now)))


def _overview_lines(output: ShellOutput, overview: Overview, tasks: Mapping[str, Rate]) -> Iterator[str]:
    style, width = output.style, output.width
    title = f"Steady Queue {steady_queue.__version__}"
    yield f"{style.bold(title)}  {style.dim(moment_text(overview.now))}"
    yield ""
    yield from wrap(_state_cells(overview), width, style)
    yield ""
    yield from _hour_lines(output, overview.hour)
    yield ""
    yield from queue_lines(output, overview.queues)
    yield ""
    yield from process_lines(output, overview.processes)
    if tasks:
        yield ""
        yield from _task_lines(output, tasks)
    yield ""
    if not overview.attention:
        yield style.green("Nothing needs attention.")
    for finding in overview.attention:
        text = show_line(f"{finding.level}: {finding.text}", 500)
        yield from _folded(text, width, getattr(style, COLOURS[finding.level]))


def _state_cells(overview: Overview) -> Iterator[Cell]:
    for state, count in overview.states.items():
        yield Cell(f"{state} {count}", COLOURS[level_of(state)] if count.number else "dim")


def _hour_lines(output: ShellOutput, hour: Sequence[Point]) -> Iterator[str]:
    ended, failed = sum(point.ended for point in hour), sum(point.failed + point.retried for point in hour)
    width = None if output.width is None else output.width - len("Last hour []")
    bars = sparkline([point.ended for point in hour], width, is_ascii=output.is_ascii)
    yield f"Last hour [{output.style.cyan(bars)}]"
    text = f"{ended:,} attempts ended, {failed:,} of them failed; {rate_of(hour).per_minute:,.1f} end per minute"
    yield from _folded(text, output.width, str)


def _task_lines(output: ShellOutput, tasks: Mapping[str, Rate]) -> Iterable[str]:
    columns = [
        Column("task", may_cut=True, cuts_start=True),
        Column("per minute", is_number=True),
        Column("failures", is_number=True),
        Column("in the hour", is_number=True),
        Column("failures", is_number=True),
    ]
    return output.table(columns, [_task_cells(path, rate) for path, rate in list(tasks.items())[:MAX_TASKS]])


def _task_cells(path: str, rate: Rate) -> list[str | Cell]:
    failures = (rate.failures_per_minute, rate.hourly_failures_per_minute)
    recent, hourly = (Cell(f"{number:,.1f}", "red" if number else "") for number in failures)
    return [path, f"{rate.per_minute:,.1f}", recent, f"{rate.hourly_per_minute:,.1f}", hourly]


def _folded(text: str, width: int | None, paint: Any) -> Iterator[str]:
    """Break a sentence between words."""
    line = ""
    for word in text.split():
        if line and width is not None and len(line) + 1 + len(word) > width:
            yield paint(line)
            line = ""
        line = f"{line} {word}" if line else word if width is None else cut_to(word, width)
    yield paint(line)
