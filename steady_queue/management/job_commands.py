"""`manage.py steady_queue jobs`: lists tasks, shows one, or changes those that the command line selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from steady_queue.management.confirmation import find_choice, refuse_blank
from steady_queue.management.job_changes import CHANGES, change_jobs
from steady_queue.management.job_text import detail_lines, list_lines
from steady_queue.management.shell_output import ShellOutput
from steady_queue.monitoring.jobs.detail import find_detail
from steady_queue.monitoring.jobs.json_values import detail_as_json, row_as_json
from steady_queue.monitoring.jobs.listings import build_listing
from steady_queue.monitoring.jobs.pages import PAGE_ROWS, find_page
from steady_queue.monitoring.jobs.positions import decode_position
from steady_queue.monitoring.jobs.search import InvalidSearch, JobSearch
from steady_queue.monitoring.text import show_line
from steady_queue.store.ids import parse_uuid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.core.management.base import OutputWrapper

    from steady_queue.monitoring.jobs.detail import JobDetail
    from steady_queue.monitoring.jobs.rows import JobRow

FILTERS = ("state", "queue", "task", "error", "key", "worker", "since", "before", "text")
#: Rows that are read at a time.
_PART_ROWS = 500


def handle_jobs(out: OutputWrapper, err: OutputWrapper, options: Mapping[str, Any]) -> int:
    """List, show or change what the command line selects, and return the exit status."""
    output = ShellOutput.of(out, err, options)
    change, ids = find_choice(options, CHANGES), list(dict.fromkeys(options["ids"]))
    filters = {name: options[name] for name in FILTERS if options[name] is not None}
    if not all(id_.strip() for id_ in ids):  # then it would be the beginning of all ids
        raise CommandError('"" is no id of a task; an empty variable of the shell?')
    refuse_blank(filters)
    if options["reason"] is not None and change != "cancel":
        raise CommandError("--reason belongs to --cancel")
    if ids and filters:
        raise CommandError(f"jobs takes either ids, or --{next(iter(filters))} and other filters")
    is_list = change is None and (not ids or (len(ids) == 1 and parse_uuid(ids[0]) is None))
    if not is_list:
        _refuse_parts_of_lists(change, options)
    try:
        search = JobSearch.from_query(filters)
        if change is not None:
            return change_jobs(output, change, ids, search, options)
        if is_list and ids:
            return _list(output, JobSearch.from_query({"id": ids[0]}), options, unknown=ids[0])
        if is_list:
            return _list(output, search, options)
    except InvalidSearch as error:
        raise CommandError(str(error)) from error
    return _show(output, ids)


def _refuse_parts_of_lists(change: str | None, options: Mapping[str, Any]) -> None:
    """A change is one of all tasks that match: with a part of a list, it would change more than was listed."""
    given = next((name for name in ("limit", "after") if options[name] is not None), None)
    if given is not None:
        what = "ids" if change is None else f"--{change.replace('_', '-')}"
        raise CommandError(f"--{given} belongs to lists of tasks, and has no effect on {what}")


def _list(output: ShellOutput, search: JobSearch, options: Mapping[str, Any], unknown: str = "") -> int:
    """List tasks. `unknown` are the first digits of an id; not to find one that begins so is an error."""
    limit, after = _parse_limit(options["limit"]), options["after"]
    if after is not None and decode_position(after, build_listing(search)) is None:
        raise CommandError(f"--after must be the cursor of a list with the same filters, not {show_line(after, 50)!r}")
    rows: list[JobRow] = []
    searched, cursor, is_complete = 0, after, True
    while len(rows) < limit:
        page = find_page(search, after=cursor, size=min(_PART_ROWS, limit - len(rows)))
        rows += page.rows
        searched += page.searched
        cursor, is_complete = page.next_cursor, page.is_complete
        if cursor is None or not is_complete:
            break
    if output.as_json:
        found = [row_as_json(row) for row in rows]
        output.write_json({"jobs": found, "next_cursor": cursor, "searched": searched, "is_complete": is_complete})
    elif rows:
        output.write(*list_lines(output, rows))
    elif is_complete and not unknown:
        output.note("no task matches")
    if unknown and is_complete and not rows:
        output.note(f"{show_line(unknown)}: there is no task whose id begins with this")
        return 1
    if cursor is not None and not output.as_json:
        how_far = "more tasks" if is_complete else f"{searched:,} tasks were searched; the others"
        output.note(f"{how_far} with --after {cursor}")
    return 0


def _show(output: ShellOutput, ids: Sequence[str]) -> int:
    """Show tasks with their lives."""
    found: list[JobDetail] = []
    unknown: list[str] = []
    for id_ in ids:
        detail = find_detail(parsed) if (parsed := parse_uuid(id_)) is not None else None
        if detail is None:
            unknown.append(id_)
        else:
            found.append(detail)
    if output.as_json:
        output.write_json({"jobs": [detail_as_json(detail) for detail in found]})
    else:
        for at, detail in enumerate(found):
            output.write(*([""] if at else []), *detail_lines(output, detail))
    for id_ in unknown:
        output.note(f"{show_line(id_)}: there is no task with this id")
    return 1 if unknown else 0


def _parse_limit(text: str | None) -> int:
    try:
        limit = PAGE_ROWS if text is None else int(text)
    except ValueError:
        limit = 0
    if limit < 1:
        raise CommandError(f"--limit must be an integer of at least 1, not {text!r:.50}")
    return limit
