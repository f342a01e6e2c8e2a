"""`manage.py steady_queue queues`: lists queues, and pauses, resumes and clears them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from steady_queue import actions
from steady_queue.actions.filters import check_queue_name
from steady_queue.actions.outcomes import apply_to
from steady_queue.events.wording import counted
from steady_queue.management.confirmation import confirm, find_choice
from steady_queue.management.shell_output import ShellOutput
from steady_queue.management.tables import COLOURS, Cell, Column, sparkline
from steady_queue.monitoring.jobs.confirmed import find_confirmed, ready_in
from steady_queue.monitoring.json_values import queues_as_json
from steady_queue.monitoring.queue_list import read_queue, read_queues
from steady_queue.monitoring.states import level_of
from steady_queue.monitoring.statistics import read_now
from steady_queue.monitoring.text import show_line, show_seconds
from steady_queue.store.names import NAME_LENGTH, explain_unstorable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from django.core.management.base import OutputWrapper

    from steady_queue.monitoring.queue_list import QueueRow

CHANGES = ("pause", "resume", "clear")
#: Minutes of a table's sparkline.
_SHOWN_MINUTES = 20


def handle_queues(out: OutputWrapper, err: OutputWrapper, options: Mapping[str, Any]) -> int:
    """List or change what the command line names, and return the exit status."""
    output = ShellOutput.of(out, err, options)
    change, names = find_choice(options, CHANGES), list(dict.fromkeys(options["ids"]))
    if change is not None:
        if not names:
            raise CommandError(f"--{change} needs the names of queues")
        return _change(output, change, names, options)
    now = read_now()
    # By name: the list may not have all queues.
    rows = [row for name in sorted(names) if (row := _find(name))] if names else read_queues(now)
    unknown = [name for name in names if name not in {row.name for row in rows}]
    if output.as_json:
        output.write_json(queues_as_json(now, rows, is_complete=True if names else None))
    elif rows:
        output.write(*queue_lines(output, rows))
    for name in unknown:
        output.note(f"{show_line(name)}: not known: it has no ready tasks, is not paused, and ran none lately")
    return 1 if unknown else 0


def _find(name: str) -> QueueRow | None:
    """Return a queue; None if it is not known, or cannot be."""
    return None if explain_unstorable(name, NAME_LENGTH) else read_queue(name)


def queue_lines(output: ShellOutput, rows: Sequence[QueueRow]) -> Iterable[str]:
    """Return the queues as a table."""
    columns = [
        Column("queue", may_cut=True),
        Column("ready", is_number=True),
        Column("oldest", is_number=True),
        Column("running", is_number=True),
        Column("per minute", is_number=True),
        Column("failures", is_number=True),
        Column("state"),
        Column(f"last {_SHOWN_MINUTES} min"),
        Column("served by", may_cut=True),
    ]
    return output.table(columns, [_cells(output, row) for row in rows])


def _cells(output: ShellOutput, row: QueueRow) -> list[str | Cell]:
    return [
        row.name,
        str(row.size),
        show_seconds(row.latency_seconds),
        f"{'about ' if row.is_running_estimated else ''}{row.running:,}",
        f"{row.rate_per_minute:,.1f}",
        Cell(f"{row.failures_per_minute:,.1f}", "red" if row.failures_per_minute else ""),
        Cell(row.state, COLOURS[level_of(row.state)]),
        Cell(sparkline(row.sparkline[-_SHOWN_MINUTES:], None, is_ascii=output.is_ascii), "cyan"),
        ", ".join(row.served_by),
    ]


def _change(output: ShellOutput, change: str, names: Sequence[str], options: Mapping[str, Any]) -> int:
    try:
        if change == "clear":
            return _clear(output, names, options)
        changed = {name: actions.pause(name) if change == "pause" else actions.resume(name) for name in names}
    except ValueError as error:
        raise CommandError(str(error)) from error
    if output.as_json:
        output.write_json({"action": change, "queues": {name: {"changed": did} for name, did in changed.items()}})
        return 0
    done, not_done = ("is paused", "was already paused") if change == "pause" else ("is resumed", "was not paused")
    for name, did in changed.items():
        output.write(f"{show_line(name)} {done if did else not_done}")
    return 0


def _clear(output: ShellOutput, names: Sequence[str], options: Mapping[str, Any]) -> int:
    """Ask, and delete the tasks that were ready then."""
    asked = {name: find_confirmed(ready_in(check_queue_name(name))) for name in names}
    sizes = [f"{show_line(name)} ({found.total} ready)" for name, (_, found) in asked.items()]
    confirm(f"Delete the ready tasks of {', '.join(sizes)}?", options)
    deleted = {name: _delete(confirmed.iterate()) for name, (confirmed, _) in asked.items()}
    if output.as_json:
        output.write_json({"action": "clear", "queues": {name: {"deleted": count} for name, count in deleted.items()}})
    else:
        output.write(*(f"{show_line(name)}: {counted(count, 'task')} deleted" for name, count in deleted.items()))
    return 0


def _delete(batches: Iterable[list[UUID]]) -> int:
    return sum(outcome.is_done for ids in batches for outcome in apply_to(ids, "discard"))
