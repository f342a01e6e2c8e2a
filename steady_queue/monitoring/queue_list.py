"""The queues: how many tasks wait and for how long, how fast they run, and which processes serve them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue.backend import SteadyQueueBackend
from steady_queue.db.transactions import run_one
from steady_queue.jobs.compat import task_backends
from steady_queue.monitoring.counts import COUNT_LIMIT, CappedCount
from steady_queue.monitoring.process_list import each_process, read_processes
from steady_queue.monitoring.statistics import MAX_NAMES, Point, fill, hour_starts, hours_by_queue, rate_of, read_now
from steady_queue.monitoring.usage import read_usage
from steady_queue.store.job import SERVED_LANES, Lane, lane_name
from steady_queue.store.operations.actions.queues import find_paused_queues
from steady_queue.store.operations.monitoring.capped_counts import count_ready
from steady_queue.store.operations.monitoring.queue_heads import MAX_HEADS, find_queue_heads
from steady_queue.store.operations.processes.actors import serves

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from steady_queue.monitoring.process_list import ProcessRow
    from steady_queue.monitoring.usage import Usage
    from steady_queue.store.operations.monitoring.queue_heads import QueueHead

#: Queues that are listed; those with ready tasks and those that are paused come first.
MAX_QUEUES = 200
#: Ready tasks that are counted, which the queues share.
_COUNTED_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue that has ready tasks, is paused, ran tasks in the last hour or is in the settings."""

    name: str
    #: The ready tasks.
    size: CappedCount
    is_paused: bool
    #: How long the oldest of the next tasks has been due; None if no task is ready.
    latency_seconds: float | None
    oldest_at: datetime | None
    running: int
    #: Whether `running` was estimated, because very many tasks run.
    is_running_estimated: bool
    #: Attempts that ended, and those that failed, per minute over the last five complete minutes.
    rate_per_minute: float
    failures_per_minute: float
    #: Attempts that ended in each of the last 60 minutes.
    sparkline: list[int]
    #: The names of the live processes that run its tasks.
    served_by: list[str]
    #: The lanes of ready tasks that no live process runs.
    unserved_lanes: list[str]
    #: The part of the capacity of these processes that is in use, from 0 to 1; None if it is not known.
    utilisation: float | None
    #: The last 60 minutes.
    hour: list[Point] = field(default_factory=list)

    @property
    def state(self) -> str:
        """`paused`, `not served` or `active`."""
        return "paused" if self.is_paused else "not served" if self.unserved_lanes else "active"


def read_queues(
    now: datetime | None = None,
    usage: Usage | None = None,
    processes: Sequence[ProcessRow] | None = None,
    hours: Mapping[str, list[Point]] | None = None,
) -> list[QueueRow]:
    """The queues by name, at most 200. What was read before can be passed."""
    facts = _read_facts(now, usage, processes, hours)
    known = [*facts.heads, *facts.paused, *sorted(facts.usage.by_queue), *facts.hours, *sorted(queues_of_settings())]
    return facts.build_rows(sorted(list(dict.fromkeys(known))[:MAX_QUEUES]))


def read_queue(name: str) -> QueueRow | None:
    """One queue; None if it has no ready tasks, is not paused, ran none in the last hour and is not in the settings."""
    now = read_now()
    facts = _read_facts(now, None, None, hours_by_queue(now, [name]), name)
    (row,) = facts.build_rows([name])
    is_known = name in facts.hours or name in facts.usage.by_queue or name in queues_of_settings()
    return row if is_known or row.size.number or row.is_paused else None


class _Facts(NamedTuple):
    """What the rows of queues are built from."""

    now: datetime
    usage: Usage
    live: list[ProcessRow]
    heads: dict[str, list[QueueHead]]
    paused: list[str]
    hours: Mapping[str, list[Point]]

    def build_rows(self, names: Sequence[str]) -> list[QueueRow]:
        # Without a head a queue is empty, unless there are too many heads.
        is_cut = sum(map(len, self.heads.values())) >= MAX_HEADS
        waiting = names if is_cut else [name for name in names if name in self.heads]
        limit = min(COUNT_LIMIT, _COUNTED_ROWS // max(1, len(waiting)))
        counts = run_one(lambda sql: count_ready(sql, waiting, limit))
        sizes = dict(zip(waiting, counts, strict=True))
        hours = {**self.hours, **self._missing_hours(names)}
        idle = fill(hour_starts(self.now), {})
        return [
            _build_row(
                name,
                CappedCount.of(sizes.get(name, 0), limit),
                self.heads.get(name, []),
                [row for row in self.live if row.serves(name)],
                hours.get(name, idle),
                self.now,
                is_paused=name in self.paused,
                usage=self.usage,
            )
            for name in names
        ]

    def _missing_hours(self, names: Sequence[str]) -> dict[str, list[Point]]:
        """The hours of queues that were left out because so many queues ran tasks."""
        missing = [name for name in names if name not in self.hours] if len(self.hours) >= MAX_NAMES else []
        return hours_by_queue(self.now, missing) if missing else {}


def _read_facts(
    now: datetime | None,
    usage: Usage | None,
    processes: Sequence[ProcessRow] | None,
    hours: Mapping[str, list[Point]] | None,
    first_queue: str = "",
) -> _Facts:
    now, usage = now or read_now(), usage or read_usage()
    live = [row for row in each_process(read_processes(now, usage) if processes is None else processes) if row.is_alive]
    heads: dict[str, list[QueueHead]] = {}
    for head in run_one(lambda sql: find_queue_heads(sql, first_queue)):
        heads.setdefault(head.queue_name, []).append(head)
    paused = run_one(lambda sql: find_paused_queues(sql))
    return _Facts(now, usage, live, heads, paused, hours_by_queue(now) if hours is None else hours)


def queues_of_settings() -> set[str]:
    """The names in QUEUES of those TASKS that are stored in this queue."""
    backends = [_load_backend(alias) for alias in task_backends]
    return {name for backend in backends if isinstance(backend, SteadyQueueBackend) for name in backend.queues}


def _load_backend(alias: str) -> Any:
    try:
        return task_backends[alias]
    except Exception:  # a backend of another package may raise anything; the system checks report it
        return None


def _build_row(
    name: str,
    size: CappedCount,
    heads: Sequence[QueueHead],
    servers: Sequence[ProcessRow],
    hour: list[Point],
    now: datetime,
    *,
    is_paused: bool,
    usage: Usage,
) -> QueueRow:
    oldest = min((head.due_at for head in heads), default=None)
    rate = rate_of(hour)
    return QueueRow(
        name=name,
        size=size,
        is_paused=is_paused,
        # The clocks of the enqueuer and the database differ: no wait is shorter than zero.
        latency_seconds=None if oldest is None else max(0.0, (now - oldest).total_seconds()),
        oldest_at=oldest,
        running=usage.by_queue[name],
        is_running_estimated=usage.is_estimated,
        rate_per_minute=rate.per_minute,
        failures_per_minute=rate.failures_per_minute,
        sparkline=[point.ended for point in hour],
        served_by=[row.name for row in servers],
        unserved_lanes=_find_unserved_lanes(name, heads, servers),
        utilisation=_utilisation(servers),
        hour=hour,
    )


def _find_unserved_lanes(name: str, heads: Iterable[QueueHead], servers: Sequence[ProcessRow]) -> list[str]:
    actors = [actor for row in servers for actor in row.actors]
    unserved: list[str] = []
    for lane in sorted({head.lane for head in heads}):
        if lane not in SERVED_LANES or not any(serves(actor, name, Lane(lane)) for actor in actors):
            unserved.append(lane_name(lane))
    return unserved


def _utilisation(servers: Iterable[ProcessRow]) -> float | None:
    lanes = [lane for row in servers for lane in row.lanes]
    capacity = sum(lane.size for lane in lanes)
    return min(1.0, sum(lane.used for lane in lanes) / capacity) if capacity else None
