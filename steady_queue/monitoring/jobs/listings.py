"""Listings: for each state, the tables and indexes in whose order its tasks are listed, and the filters beyond them.

A filter that is part of the index is a condition of
the section. The other filters are checked row by row, in windows of a limited size: see pages.py.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Q

from steady_queue.db.aliases import queue_alias
from steady_queue.models import (
    BlockedExecution,
    ClaimedExecution,
    FailedExecution,
    Job,
    Process,
    ReadyExecution,
    ScheduledExecution,
)
from steady_queue.monitoring.jobs.current_state import LOST_CLASSES
from steady_queue.monitoring.jobs.sections import Column, Section, first_id_of, last_id_of
from steady_queue.monitoring.states import LATE_SECONDS, JobState
from steady_queue.monitoring.statistics import read_now
from steady_queue.store.job import FailureKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from steady_queue.monitoring.jobs.search import JobSearch

_KINDS = {
    JobState.FAILED: FailureKind.FAILED,
    JobState.LOST: FailureKind.FAILED,
    JobState.EXHAUSTED: FailureKind.EXHAUSTED,
    JobState.CANCELLED: FailureKind.CANCELLED,
    JobState.EXPIRED: FailureKind.EXPIRED,
}
#: States in which a task waits: their tables do not say since when.
_WAITING = (JobState.READY, JobState.LATE, JobState.SCHEDULED, JobState.RETRYING, JobState.BLOCKED)


@dataclass(frozen=True, slots=True)
class Listing:
    """The sections of a list, one after the other, and the condition for the jobs of their rows."""

    sections: tuple[Section, ...]
    job_filter: Q | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether rows have to be read that do not match."""
        return self.job_filter is not None or any(one.is_match or one.job_filter for one in self.sections)


def build_listing(search: JobSearch, as_of: datetime | None = None) -> Listing:
    """Return how the tasks of a search are found. `as_of`: without those that have entered the list since then.

    When a waiting task entered its list is not stored. Left out are those that were enqueued, became due or began their
    last attempt since then. Those that ended an attempt or were changed by a user since then cannot be distinguished.
    """
    sections = _sections(search, as_of)
    conditions = [*_job_conditions(search), *_state_conditions(search.state)]
    if as_of is not None and search.state in _WAITING:
        conditions.append(_has_waited_since(as_of))
    job_filter = None
    for condition in conditions:
        job_filter = condition if job_filter is None else job_filter & condition
    return Listing(tuple(sections), job_filter)


# -- sections ---------------------------------------------------------------------------------------------------------


def _sections(search: JobSearch, as_of: datetime | None) -> list[Section]:
    state = search.state
    if state is JobState.FAILED:
        # A newer version may have stored kinds that this one lacks.
        unknown = Q(kind__gt=max(FailureKind))
        return [_failed(search, as_of, Q(kind=FailureKind.FAILED.value)), _failed(search, as_of, unknown)]
    if state in _KINDS:
        return [_failed(search, as_of, Q(kind=_KINDS[state].value))]
    if state is JobState.FINISHED:
        order = (Column("finished_at", True, True), Column("id", True))
        return [_by_time(Section(Job, order, Q(finished_at__isnull=False)), search, as_of)]
    if state is JobState.RUNNING:
        order = (Column("claimed_at", False, True), Column("job_id"))
        return [_by_time(_of_worker(Section(ClaimedExecution, order), search), search, as_of)]
    if state in (JobState.SCHEDULED, JobState.RETRYING):
        return [_by_time(_SCHEDULED, search)]
    if state is JobState.LATE:
        late_before = (as_of or read_now()) - timedelta(seconds=LATE_SECONDS)
        overdue = replace(_SCHEDULED, where=Q(scheduled_at__lt=late_before))
        ready = replace(_ready(search), job_filter=_due_before(late_before))
        return [_by_time(overdue, search), _by_id(ready, search, late_before)]
    if state is JobState.READY:
        return [_by_id(_ready(search), search, as_of)]
    if state is JobState.BLOCKED:
        return [_by_id(_blocked(search), search, as_of)]
    return [_by_id(Section(Job, (Column("id", True),)), search, as_of)]


_SCHEDULED = Section(
    ScheduledExecution, (Column("scheduled_at", False, True), Column("priority", True), Column("job_id"))
)


def _failed(search: JobSearch, as_of: datetime | None, where: Q) -> Section:
    order = (Column("failed_at", True, True), Column("job_id", True))
    section = Section(FailedExecution, order, where, more=("exception_class",))
    if search.state is JobState.LOST or search.error:
        section = replace(section, is_match=lambda key: _is_wanted_error(key[-1], search))
    return _by_time(section, search, as_of)


def _is_wanted_error(exception_class: str, search: JobSearch) -> bool:
    if search.state is JobState.LOST and exception_class not in LOST_CLASSES:
        return False
    return not search.error or exception_class == search.error or exception_class.endswith(f".{search.error}")


def _ready(search: JobSearch) -> Section:
    """In the order of enqueueing; of one queue, in the order in which workers claim."""
    if not search.queue:
        return Section(ReadyExecution, (Column("job_id"),))
    order = (Column("lane"), Column("priority", True), Column("job_id"))
    return Section(ReadyExecution, order, Q(queue_name=search.queue))


def _blocked(search: JobSearch) -> Section:
    """In the order of enqueueing; of one key, in the order in which slots are granted."""
    if not search.key:
        return Section(BlockedExecution, (Column("job_id"),))
    return Section(BlockedExecution, (Column("priority", True), Column("job_id")), Q(concurrency_key=search.key))


def _of_worker(section: Section, search: JobSearch) -> Section:
    if not search.worker:
        return section
    named = Process.objects.using(queue_alias()).filter(name=search.worker).values_list("id", flat=True)
    ids = list(named[:1000])
    with suppress(ValueError):
        ids.append(UUID(search.worker))
    return replace(section, where=section.where & Q(process_id__in=ids))


def _by_time(section: Section, search: JobSearch, as_of: datetime | None = None) -> Section:
    """Add the bounds of time, and the id, to a section that is sorted by a time first."""
    column = section.columns[0].name
    before = [moment for moment in (search.before, as_of) if moment is not None]
    where = section.where
    if search.since is not None:
        where &= Q(**{f"{column}__gte": search.since})
    if before:
        where &= Q(**{f"{column}__lte": min(before)})
    section = replace(section, where=where)
    if (ids := search.id_range()) is None:
        return section
    # The first digits of an id select few rows, unlike the time: the index of the ids is the better one.
    last = section.columns[-1]
    return replace(section, columns=(last,), where=where & _between(last.name, ids))


def _by_id(section: Section, search: JobSearch, until: datetime | None) -> Section:
    """Add the bounds of time, and the id, to a section that is sorted by ids."""
    first, last = search.id_range() or (first_id_of(datetime(1970, 1, 1, tzinfo=UTC)), UUID(int=(1 << 128) - 1))
    name = section.columns[-1].name
    before = [moment for moment in (search.before, until) if moment is not None]
    bounds = []
    if search.since is not None:
        first = max(first, first_id_of(search.since))
        bounds.append(Q(**{f"{name}__gte": first}))
    if before:
        last = min(last, last_id_of(min(before)))
        bounds.append(Q(**{f"{name}__lte": last}))
    if search.id:
        section = replace(section, columns=section.columns[-1:])
        bounds = [_between(name, (first, last))]
    if len(section.columns) > 1 and bounds:
        # The index has other columns before the id: rows beyond the bounds have to be read.
        return replace(section, is_match=lambda key: first <= section.id_of(key) <= last)
    where = section.where
    for bound in bounds:
        where &= bound
    return replace(section, where=where)


def _between(name: str, ids: tuple[UUID, UUID]) -> Q:
    return Q(**{f"{name}__gte": ids[0], f"{name}__lte": ids[1]})


# -- conditions for the jobs ------------------------------------------------------------------------------------------


def _job_conditions(search: JobSearch) -> Iterator[Q]:
    if search.queue and search.state is not JobState.READY:
        yield Q(queue_name=search.queue)
    if search.task:
        yield Q(task_path=search.task) if "." in search.task else Q(task_path__endswith=f".{search.task}")
    if search.key and search.state is not JobState.BLOCKED:
        yield Q(concurrency_key=search.key)
    if search.worker and search.state is not JobState.RUNNING:
        yield _has_line("worker_ids", search.worker)
    if search.error and search.state not in _KINDS:
        yield Q(errors__contains=_json_text(search.error))
    if search.text:
        yield Q(arguments__icontains=_json_text(search.text))


def _state_conditions(state: JobState | None) -> Sequence[Q]:
    if state is JobState.SCHEDULED:
        return [Q(retries=0)]
    if state is JobState.RETRYING:
        return [Q(retries__gt=0)]
    return []


def _has_waited_since(as_of: datetime) -> Q:
    """The condition that a waiting job may have been in its state then already."""
    has_not_begun = Q(last_attempted_at__isnull=True) | Q(last_attempted_at__lte=as_of)
    # A job that is due later, and ready nevertheless, was made ready by a user.
    was_due = Q(scheduled_at__isnull=True) | Q(scheduled_at__lte=as_of) | Q(scheduled_at__gt=datetime.now(UTC))
    return Q(id__lte=last_id_of(as_of)) & has_not_begun & was_due


def _due_before(moment: datetime) -> Q:
    """The condition that a ready job has been due since then."""
    is_due = Q(scheduled_at__isnull=True, enqueued_at__lt=moment) | Q(scheduled_at__lt=moment)
    # When a task became ready again after an attempt is not stored: not before the attempt began.
    return is_due & (Q(last_attempted_at__isnull=True) | Q(last_attempted_at__lt=moment))


def _has_line(column: str, line: str) -> Q:
    """The condition that one of the lines of a column is this one."""
    first, last, between = f"{line}\n", f"\n{line}", f"\n{line}\n"
    is_at_an_end = Q(**{f"{column}__startswith": first}) | Q(**{f"{column}__endswith": last})
    return Q(**{column: line}) | is_at_an_end | Q(**{f"{column}__contains": between})


def _json_text(text: str) -> str:
    """Return a text as it is stored in JSON, without the quotes."""
    return json.dumps(text)[1:-1]
