"""Changes of tasks by the command line: retry, discard, run now, cancel; by ids, or all that match, in batches."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from steady_queue.actions.outcomes import PARTICIPLES, ActionOutcome, OutcomeKind, apply_to
from steady_queue.events.wording import counted
from steady_queue.management.confirmation import confirm, find_user
from steady_queue.management.progress_bar import ProgressBar
from steady_queue.monitoring.counts import CappedCount
from steady_queue.monitoring.jobs.confirmed import find_confirmed
from steady_queue.monitoring.jobs.detail import ACTIONS
from steady_queue.monitoring.jobs.pages import BATCH_ROWS
from steady_queue.monitoring.text import show_line
from steady_queue.store.ids import parse_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from steady_queue.management.shell_output import ShellOutput
    from steady_queue.monitoring.jobs.search import JobSearch

#: The question of each change.
CHANGES = {"retry": "Retry", "discard": "Delete", "run_now": "Run now", "cancel": "Cancel"}
#: Tasks that were not changed and are listed; the totals count all.
MAX_LISTED = 100
_UNKNOWN = "is not the id of a task"


class _Totals:
    """What came of a change."""

    def __init__(self) -> None:
        self.kinds: Counter[OutcomeKind] = Counter()
        self.unchanged: list[ActionOutcome] = []
        self.is_interrupted = False

    def add(self, outcomes: Iterable[ActionOutcome]) -> None:
        for outcome in outcomes:
            self.kinds[outcome.kind] += 1
            if not outcome.is_done and len(self.unchanged) < MAX_LISTED:
                self.unchanged.append(outcome)

    @property
    def not_done(self) -> int:
        return self.kinds[OutcomeKind.STALE] + self.kinds[OutcomeKind.REFUSED]


def change_jobs(
    output: ShellOutput, change: str, ids: Sequence[str], search: JobSearch, options: Mapping[str, Any]
) -> int:
    """Ask, change the tasks, write what came of it, and return the exit status."""
    totals = _Totals()
    if ids:
        parsed = _parse_ids(ids, totals)
        batches, count = _batches(parsed), CappedCount(len(parsed))
    else:
        _check_state(change, search)
        confirmed, found = find_confirmed(search)
        batches, count = confirmed.iterate(), found.total
    # A filter that no index has may match none of the first rows, and then others.
    if count.number or count.is_capped:
        which = "".join(f", {name} {show_line(value)}" for name, value in search.to_query().items())
        confirm(f"{CHANGES[change]} {count.counted('task')}{which}?", options)
    with _progress(output, options, count.number) as advance:
        _apply(change, batches, totals, options, advance)
    _write(output, change, totals)
    return 130 if totals.is_interrupted else 1 if totals.not_done else 0


def _parse_ids(ids: Sequence[str], totals: _Totals) -> list[UUID]:
    """Return those that are ids; the others are refused."""
    parsed: list[UUID] = []
    for text in ids:
        if (id_ := parse_uuid(text)) is not None:
            parsed.append(id_)
        else:
            totals.add([ActionOutcome(text, OutcomeKind.REFUSED, _UNKNOWN)])
    return parsed


def _check_state(change: str, search: JobSearch) -> None:
    """A change of all tasks that match needs the state in which they are: most tasks have ended long ago."""
    possible = [str(state) for state, names in ACTIONS.items() if change in names]
    switch = f"--{change.replace('_', '-')}"
    if search.state is None:
        raise CommandError(f"{switch} needs ids, or --state and other filters; the state: {', '.join(possible)}")
    if str(search.state) not in possible:
        raise CommandError(f"{switch} is possible for tasks that are {', '.join(possible)}, not {search.state}")


def _batches(ids: Sequence[UUID]) -> Iterator[list[UUID]]:
    for at in range(0, len(ids), BATCH_ROWS):
        yield list(ids[at : at + BATCH_ROWS])


def _apply(
    change: str,
    batches: Iterable[list[UUID]],
    totals: _Totals,
    options: Mapping[str, Any],
    advance: Callable[[int], None],
) -> None:
    why = {"by": find_user(options), "reason": options["reason"] or ""} if change == "cancel" else {}
    try:
        for batch in batches:
            totals.add(apply_to(batch, change, **why))
            advance(len(batch))
    except KeyboardInterrupt:
        totals.is_interrupted = True
    except ValueError as error:
        raise CommandError(str(error)) from error


@contextmanager
def _progress(output: ShellOutput, options: Mapping[str, Any], total: int) -> Iterator[Callable[[int], None]]:
    if options["verbosity"] < 1 or total <= BATCH_ROWS or not output.err.isatty():
        yield lambda count: None
        return
    bar = ProgressBar(sys.stderr, "tasks", total)
    try:
        yield bar.advance
    finally:
        bar.end()


def _write(output: ShellOutput, change: str, totals: _Totals) -> None:
    done, requested = totals.kinds[OutcomeKind.DONE], totals.kinds[OutcomeKind.REQUESTED]
    if output.as_json:
        output.write_json(
            {
                "action": change,
                "done": done,
                "requested": requested,
                "stale": totals.kinds[OutcomeKind.STALE],
                "refused": totals.kinds[OutcomeKind.REFUSED],
                "is_interrupted": totals.is_interrupted,
                "unchanged": [
                    {"id": one.job_id, "kind": one.kind.name.lower(), "reason": one.text} for one in totals.unchanged
                ],
            }
        )
        return
    parts = [f"{counted(done, 'task')} {PARTICIPLES[change]}"]
    if requested:
        parts.append(f"the processes of {counted(requested, 'running task')} were asked to stop them")
    if totals.not_done:
        parts.append(f"{counted(totals.not_done, 'task')} not changed")
    output.write("; ".join(parts))
    for one in totals.unchanged:
        output.note(f"{show_line(one.job_id)}: {show_line(one.text)}")
    if totals.not_done > len(totals.unchanged):
        output.note(f"and {totals.not_done - len(totals.unchanged):,} more")
    if totals.is_interrupted:
        output.note("interrupted: the tasks of the batches before stay changed")
