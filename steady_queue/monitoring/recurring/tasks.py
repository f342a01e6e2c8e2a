"""Recurring tasks: their schedules, their last and next runs, and the history of their runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import OuterRef, Subquery

from steady_queue.db.aliases import queue_alias
from steady_queue.models import RecurringExecution, RecurringTask
from steady_queue.monitoring.jobs.current_state import read_states
from steady_queue.monitoring.recurring.late_schedules import counting_from, find_missed, is_late
from steady_queue.monitoring.recurring.schedule_words import describe_schedule
from steady_queue.recurring import schedule as schedules
from steady_queue.recurring.definitions import zone_of
from steady_queue.recurring.time_zones import find_zone
from steady_queue.store.names import NAME_LENGTH, explain_unstorable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from django.db.models import QuerySet

    from steady_queue.monitoring.states import JobState
    from steady_queue.recurring.schedule import Schedule

PAGE_SIZE = 50
#: How many of the next runs are computed.
NEXT_RUNS = 5


@dataclass(frozen=True, slots=True)
class RecurringRun:
    """A run that a scheduler has recorded."""

    job_id: UUID
    #: The time of the schedule for which it was enqueued.
    run_at: datetime
    enqueued_at: datetime
    #: None if the task is not stored: it was deleted, left out, discarded, or belongs to another backend.
    state: JobState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringRow:
    """A recurring task."""

    key: str
    task_path: str
    #: As it is stored, and in words.
    schedule: str
    words: str
    #: The name of its time zone, which is the project's if it has none of its own.
    time_zone: str
    has_own_time_zone: bool
    arguments: str
    #: None where they are those of the task.
    queue_name: str | None
    priority: int | None
    catch_up: str
    skip_if_unfinished: bool
    description: str
    #: Whether it is defined in the code or the settings; otherwise it was added at run time.
    is_static: bool
    is_enabled: bool
    #: Why it was disabled, if a scheduler has disabled it.
    disabled_reason: str | None
    created_at: datetime
    updated_at: datetime
    last_run: RecurringRun | None
    #: The next times of its schedule, in its time zone; none if it is disabled.
    next_runs: tuple[datetime, ...] = ()
    #: The first time of its schedule that has passed for more than a minute without a run, and whether that is to be
    #: reported: see late_schedules.py.
    missed_at: datetime | None = None
    is_late: bool = False
    #: Why its times cannot be computed.
    problem: str | None = None


class RecurringList(NamedTuple):
    """Some recurring tasks in the order of their keys; if there are more, they come after `next_key`."""

    rows: tuple[RecurringRow, ...]
    next_key: str | None


class RunPage(NamedTuple):
    """Some runs, the newest first; if there are more, they come before `next_before`."""

    rows: tuple[RecurringRun, ...]
    next_before: datetime | None


class Preview(NamedTuple):
    """What a schedule means, before it is stored."""

    words: str
    next_runs: tuple[datetime, ...]


# -- reading ----------------------------------------------------------------------------------------------------------


def read_recurring(after: str = "", *, size: int = PAGE_SIZE) -> RecurringList:
    """Return the recurring tasks whose keys come after this one, in two queries."""
    if explain_unstorable(after, NAME_LENGTH):
        after = ""
    stored = list(_select().filter(key__gt=after).order_by("key")[: size + 1])
    shown = stored[:size]
    return RecurringList(tuple(_build_rows(shown)), shown[-1].key if len(stored) > size else None)


def find_recurring(key: str) -> RecurringRow | None:
    """Return the recurring task with this key, in two queries."""
    if explain_unstorable(key, NAME_LENGTH):
        return None
    rows = list(_build_rows(_select().filter(key=key)))
    return rows[0] if rows else None


def read_history(key: str, before: datetime | None = None, *, size: int = PAGE_SIZE) -> RunPage:
    """Return the runs of a recurring task before a time, the newest first, in two queries."""
    if explain_unstorable(key, NAME_LENGTH):
        return RunPage((), None)
    stored = RecurringExecution.objects.using(queue_alias()).filter(task_key=key)
    if before is not None:
        stored = stored.filter(run_at__lt=before)
    found = list(stored.order_by("-run_at")[: size + 1])
    states = read_states(row.job_id for row in found[:size])
    runs = tuple(RecurringRun(row.job_id, row.run_at, row.created_at, states.get(row.job_id)) for row in found[:size])
    return RunPage(runs, runs[-1].run_at if len(found) > size else None)


def preview(schedule: str, time_zone: str | None, now: datetime | None = None) -> Preview:
    """Return what a schedule means, or raise ConfigurationError."""
    zone = zone_of(time_zone)
    parsed = schedules.parse(schedule, zone)
    return Preview(describe_schedule(schedule), _next_runs(parsed, zone, datetime.now(UTC) if now is None else now))


def _select() -> QuerySet[Any]:
    """The recurring tasks, each with its last run."""
    runs = RecurringExecution.objects.filter(task_key=OuterRef("key")).order_by("-run_at")
    return RecurringTask.objects.using(queue_alias()).annotate(
        last_job=Subquery(runs.values("job_id")[:1]),
        last_tick=Subquery(runs.values("run_at")[:1]),
        last_enqueued=Subquery(runs.values("created_at")[:1]),
    )


# -- rows -------------------------------------------------------------------------------------------------------------


def _build_rows(stored: Iterable[Any]) -> Iterable[RecurringRow]:
    now = datetime.now(UTC)
    rows: Sequence[RecurringRow] = [_build_row(task, now) for task in stored]
    states = read_states(row.last_run.job_id for row in rows if row.last_run is not None)
    for row in rows:
        last = row.last_run
        yield row if last is None else replace(row, last_run=replace(last, state=states.get(last.job_id)))


def _build_row(task: Any, now: datetime) -> RecurringRow:
    zone = zone_of(task.time_zone)
    last = None if task.last_job is None else RecurringRun(task.last_job, task.last_tick, task.last_enqueued)
    next_runs: tuple[datetime, ...] = ()
    missed = problem = None
    try:
        parsed = schedules.parse(task.schedule, zone)
        if task.enabled:
            next_runs = _next_runs(parsed, zone, now)
            after = counting_from(task.updated_at, task.counts_from, task.last_tick)
            missed = find_missed(parsed, after, now)
    except Exception as error:  # a stored schedule, zone or time may be any text
        problem = f"{type(error).__name__}: {error}"
    return RecurringRow(
        key=task.key,
        task_path=task.task_path,
        schedule=task.schedule,
        words=describe_schedule(task.schedule),
        time_zone=zone,
        has_own_time_zone=task.time_zone is not None,
        arguments=task.arguments,
        queue_name=task.queue_name,
        priority=task.priority,
        catch_up=task.catch_up,
        skip_if_unfinished=task.skip_if_unfinished,
        description=task.description,
        is_static=task.static,
        is_enabled=task.enabled,
        disabled_reason=task.disabled_reason,
        created_at=task.created_at,
        updated_at=task.updated_at,
        last_run=last,
        next_runs=next_runs,
        missed_at=None if missed is None else missed.first,
        is_late=is_late(missed, task.catch_up, now),
        problem=problem,
    )


def _next_runs(parsed: Schedule, zone: str, now: datetime) -> tuple[datetime, ...]:
    found: list[datetime] = []
    tick = parsed.next(now)
    while tick is not None and len(found) < NEXT_RUNS:
        found.append(tick.astimezone(find_zone(zone)))
        tick = parsed.next(tick)
    return tuple(found)
