"""Timetable: the entries of recurring tasks in the order of their next ticks. Pure: no database, no sleeping."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from steady_queue import arguments
from steady_queue.errors import ConfigurationError
from steady_queue.recurring import schedule
from steady_queue.recurring.catch_up import POLICIES
from steady_queue.recurring.definitions import resolve_task, zone_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steady_queue.jobs.compat import Task
    from steady_queue.recurring.schedule import Schedule
    from steady_queue.store.operations.recurring.entries import Entry, StoredTime

#: The number of lines for replaced or dropped plans that may stay in the heap.
MAX_STALE_LINES = 100


@dataclass(frozen=True, slots=True)
class Planned:
    """An entry with its schedule and its task; `after` is until when its ticks were handled, `tick` the next one."""

    entry: Entry
    schedule: Schedule
    task: Task[..., Any]
    after: datetime
    tick: datetime | None


class Timetable:
    """Each known entry, and a heap with a line for each, ordered by the time of its next tick."""

    def __init__(self) -> None:
        self._known: dict[str, Planned] = {}
        #: Entries that other schedulers may be able to enqueue, with their `updated_at` when they were ignored.
        self._ignored: dict[str, StoredTime] = {}
        #: Lines of plans that are no longer known stay until they come first, or are too many. The number avoids that
        #: plans are compared.
        self._lines: list[tuple[datetime, int, Planned]] = []
        self._numbers = count()

    @property
    def next_at(self) -> datetime | None:
        """When the next line is due."""
        while self._lines and not self._is_known(self._lines[0][2]):
            heappop(self._lines)
        return self._lines[0][0] if self._lines else None

    def changed(self, listed: Mapping[str, StoredTime]) -> list[str]:
        """Return the keys of entries that are new, or have another `updated_at` than the known ones."""
        return [key for key, updated_at in listed.items() if self._seen(key) != updated_at]

    def _seen(self, key: str) -> StoredTime | None:
        planned = self._known.get(key)
        return self._ignored.get(key) if planned is None else planned.entry.updated_at

    def keep_only(self, listed: Mapping[str, StoredTime]) -> None:
        """Forget the entries that are not listed."""
        for key in (self._known.keys() | self._ignored.keys()) - listed.keys():
            self.drop(key)

    def add(self, entry: Entry, now: datetime) -> None:
        """Add an entry, or replace it; raises the error of an invalid entry."""
        new = entry.new
        self.drop(new.task_key)
        _instant("updated_at", entry.updated_at)
        after = _instant("counts_from", entry.counts_from)
        if entry.last_tick is not None:
            after = max(after, _instant("last tick", entry.last_tick))
        if new.catch_up not in POLICIES:
            raise ConfigurationError(f"catch_up must be one of {', '.join(POLICIES)}, not {new.catch_up!r}")
        arguments.examine(new.arguments)
        ticks = schedule.parse(new.schedule, zone_of(new.time_zone))
        task = resolve_task(new.task_path, new.queue_name, new.priority)
        self._enter(entry, ticks, task, min(after, now))

    def drop(self, key: str) -> None:
        """Forget an entry."""
        self._known.pop(key, None)
        self._ignored.pop(key, None)

    def ignore(self, entry: Entry) -> None:
        """Ignore an entry until it is changed."""
        self.drop(entry.new.task_key)
        self._ignored[entry.new.task_key] = entry.updated_at

    def due(self, now: datetime, most: int) -> list[Planned]:
        """Return the entries that are due, the longest due first; each stays due until it is moved on or dropped."""
        lines: list[tuple[datetime, int, Planned]] = []
        while (next_at := self.next_at) is not None and next_at <= now and len(lines) < most:
            lines.append(heappop(self._lines))
        for line in lines:
            heappush(self._lines, line)
        return [planned for _, _, planned in lines]

    def move_on(self, planned: Planned, after: datetime) -> None:
        """Record that the ticks of an entry up to `after` have been handled."""
        if self._is_known(planned):
            self._enter(planned.entry, planned.schedule, planned.task, after)

    def _enter(self, entry: Entry, schedule: Schedule, task: Task[..., Any], after: datetime) -> None:
        planned = Planned(entry, schedule, task, after, schedule.next(after))
        self._known[entry.new.task_key] = planned
        if planned.tick is not None:
            heappush(self._lines, (planned.tick, next(self._numbers), planned))
        if len(self._lines) > 2 * len(self._known) + MAX_STALE_LINES:
            self._lines = [line for line in self._lines if self._is_known(line[2])]
            heapify(self._lines)

    def _is_known(self, planned: Planned) -> bool:
        return self._known.get(planned.entry.new.task_key) is planned


def _instant(what: str, moment: StoredTime) -> datetime:
    if not isinstance(moment, datetime):
        raise ConfigurationError(f"its {what} cannot be read: {moment!r}")
    return moment
