"""Tasks as text: a list as a table, and one task with its life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.management.shell_output import age_text, moment_text
from steady_queue.management.tables import COLOURS, Cell, Column, cut_to
from steady_queue.monitoring.states import JobState, level_of
from steady_queue.monitoring.text import show, show_line, show_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from steady_queue.management.shell_output import ShellOutput
    from steady_queue.monitoring.jobs.argument_text import ArgumentTexts
    from steady_queue.monitoring.jobs.detail import JobDetail
    from steady_queue.monitoring.jobs.rows import JobRow
    from steady_queue.monitoring.jobs.timeline import Attempt, TimelineEntry

#: Characters of a text on several lines, such as a traceback.
TEXT_CHARACTERS = 20_000


def list_lines(output: ShellOutput, rows: Sequence[JobRow]) -> Iterable[str]:
    """Return a table of tasks."""
    columns = [
        Column("id"),
        Column("state"),
        Column("task", may_cut=True, cuts_start=True),
        Column("queue", may_cut=True),
        Column("when", is_number=True),
        Column("attempts", is_number=True),
        Column("error or arguments", may_cut=True),
    ]
    return output.table(columns, [_cells(row) for row in rows])


def _cells(row: JobRow) -> list[str | Cell]:
    state = f"{row.state}, late" if row.is_late else str(row.state)
    colour = COLOURS[level_of(row.state)] or (COLOURS[level_of(JobState.LATE)] if row.is_late else "")
    return [
        str(row.id),
        Cell(state, colour),
        row.task_path,
        row.queue_name,
        age_text(row.at),
        f"{row.attempts:,}",
        _error(row) or row.arguments,
    ]


def _error(row: JobRow) -> str:
    message = f": {row.error_message}" if row.error_message else ""
    return f"{row.error_class.rpartition('.')[2]}{message}" if row.error_class else ""


def detail_lines(output: ShellOutput, detail: JobDetail) -> Iterator[str]:
    """Return everything that people want to know about a task."""
    style, row = output.style, detail.row
    yield style.bold(show_line(row.task_path))
    for name, value in _facts(detail):
        if value:
            yield f"  {style.dim(f'{name:<12}')} {show_line(value, 500)}"
    for reason in detail.waiting:
        yield style.yellow(f"  {show_line(reason.text, 500)}")
    yield from _argument_lines(detail.arguments)
    for heading, text in (("Result", detail.result), ("Metadata", detail.metadata), ("Saved", detail.saved)):
        if text is not None:
            yield heading
            yield from _text_lines(text)
    yield "Timeline"
    for entry in detail.timeline:
        yield from _entry_lines(output, entry)
    if detail.actions:
        yield style.dim(f"Possible: {', '.join(name.replace('_', ' ') for name in detail.actions)}")


def _argument_lines(arguments: ArgumentTexts) -> Iterator[str]:
    yield "Arguments"
    if arguments.problem:
        yield f"  {show_line(arguments.problem)}"
    for argument in arguments.values:
        yield from _text_lines(f"{argument.name} = {argument.text}" if argument.name else argument.text)
        if argument.is_cut:
            yield "  (only the beginning of the value)"


def _facts(detail: JobDetail) -> Iterator[tuple[str, str]]:
    row = detail.row
    limit = "" if detail.concurrency_limit is None else f" (limit {detail.concurrency_limit})"
    progress = row.progress
    yield "id", str(row.id)
    yield "state", f"{row.state}{', late' if row.is_late else ''}"
    yield "queue", f"{row.queue_name}, priority {row.priority}, lane {detail.lane}, backend {detail.backend}"
    yield "enqueued", _when(row.enqueued_at)
    yield "due", _when(row.due_at) if row.state in (JobState.SCHEDULED, JobState.RETRYING, JobState.READY) else ""
    yield "started", _when(detail.started_at)
    yield "ended", _when(detail.ended_at)
    yield "expires", _when(detail.expires_at)
    yield "attempts", f"{row.attempts:,}"
    yield "worker", row.worker
    if progress is not None:
        total = "" if progress.total is None else f" of {progress.total:g}"
        yield "progress", f"{progress.done:g}{total} {progress.message}".strip()
    yield "key", f"{row.concurrency_key}{limit}" if row.concurrency_key else ""
    yield "unique key", detail.unique_key
    yield "recurring", detail.recurring_key
    yield "error", _error(row)


def _when(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment_text(moment)} ({age_text(moment)})"


def _entry_lines(output: ShellOutput, entry: TimelineEntry) -> Iterator[str]:
    at = moment_text(entry.at) or "-"
    attempt = entry.attempt
    more = _attempt_words(attempt) if attempt is not None else ""
    line = show_line(f"{entry.text}{more}", 500)
    colour = COLOURS[level_of(entry.kind if attempt is None else attempt.ending)]
    painted = getattr(output.style, colour)(line) if colour else line
    yield f"  {output.style.dim(f'{at:<19}')}  {painted}"
    if attempt is None:
        return
    for logged in attempt.log:
        yield f"    {moment_text(logged.at)} {show_line(logged.message, 500)}"
    text = attempt.traceback or attempt.message
    if text:
        yield from _text_lines(text, "    ")


def _attempt_words(attempt: Attempt) -> str:
    where = f" in {attempt.worker}" if attempt.worker else ""
    seconds = attempt.duration_seconds
    return f"{where}{'' if seconds is None else f', {show_seconds(seconds)}'}"


def _text_lines(text: str, indent: str = "  ") -> Iterator[str]:
    for line in show(text.rstrip("\n"), TEXT_CHARACTERS).split("\n"):
        yield f"{indent}{cut_to(line, 1000)}"
