"""The processes: supervisors with their children, and what each measured at its last heartbeat."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue.checks.health import default_max_age
from steady_queue.configuration import alive_threshold
from steady_queue.db.aliases import queue_alias
from steady_queue.models import Process
from steady_queue.monitoring.statistics import read_now
from steady_queue.monitoring.text import show_seconds
from steady_queue.monitoring.usage import read_usage
from steady_queue.store.job import SERVED_LANES
from steady_queue.store.operations.processes.actors import parse_actors, serves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from uuid import UUID

    from steady_queue.monitoring.usage import Usage

#: The largest number of which a float has every digit.
_LARGEST = 2**53
#: Processes that are read, the newest first.
MAX_PROCESSES = 500
#: A process whose event loop was late by more than this is stuck.
STUCK_LAG_SECONDS = 1.0


class LaneUse(NamedTuple):
    """How much of the capacity of a lane is in use."""

    name: str
    used: int
    size: int


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One operating system process. What it measures is as of its last heartbeat; None if it is not known."""

    id: UUID
    name: str
    kind: str
    hostname: str
    pid: int
    supervisor_id: UUID | None
    version: str | None
    code_version: str | None
    started_at: datetime
    heartbeat_age_seconds: float
    is_alive: bool
    #: Whether it has polled recently; None for a supervisor, which does not poll.
    is_polling: bool | None
    polled_age_seconds: float | None
    lanes: list[LaneUse]
    loop_lag_seconds: float | None
    memory_bytes: int | None
    #: Threads whose tasks ran longer than allowed and cannot be stopped.
    stuck_threads: int
    running: int
    #: What it runs, as its row lists it: workers with their queues, dispatchers, schedulers.
    actors: list[Mapping[str, Any]]
    children: list[ProcessRow] = field(default_factory=list)

    @property
    def is_stuck(self) -> bool:
        """Whether it is alive but does not do its work: its event loop or threads are stuck, or it does not poll."""
        lag = self.loop_lag_seconds or 0.0
        return self.is_alive and (self.is_polling is False or self.stuck_threads > 0 or lag > STUCK_LAG_SECONDS)

    @property
    def state(self) -> str:
        """`dead`, `stuck` or `alive`."""
        return "dead" if not self.is_alive else "stuck" if self.is_stuck else "alive"

    def explain_dead(self) -> str | None:
        """Why it is not asked for anything, as the end of a sentence about it; None if it is alive."""
        return None if self.is_alive else _describe_dead(self.heartbeat_age_seconds)

    @property
    def queues(self) -> list[str]:
        """The patterns of the queues that its workers serve."""
        lists = [actor.get("queues") for actor in self.actors if actor.get("kind") == "worker"]
        return list(dict.fromkeys(str(name) for names in lists if isinstance(names, list) for name in names))

    def serves(self, queue: str) -> bool:
        """Whether one of its workers runs tasks of this queue, in any lane."""
        return any(serves(actor, queue, lane) for actor in self.actors for lane in SERVED_LANES)


def read_processes(now: datetime | None = None, usage: Usage | None = None) -> list[ProcessRow]:
    """The processes that have no supervisor, by name, each with its children."""
    now, usage = now or read_now(), usage or read_usage()
    found = Process.objects.using(queue_alias()).order_by("-started_at")[:MAX_PROCESSES]
    rows = {process.id: _build_row(process, now, usage) for process in found}
    children: dict[UUID, list[ProcessRow]] = {}
    for row in sorted(rows.values(), key=lambda row: (row.started_at, row.name)):
        if row.supervisor_id in rows:
            children.setdefault(row.supervisor_id, []).append(row)
    tops = [row for row in rows.values() if row.supervisor_id not in rows]
    return [replace(row, children=children.get(row.id, [])) for row in sorted(tops, key=lambda row: row.name)]


def explain_dead_process(process_id: UUID) -> str | None:
    """`explain_dead` of one process; None also if it is not known."""
    sent_at = Process.objects.using(queue_alias()).filter(id=process_id).values_list("last_heartbeat_at", flat=True)
    at = sent_at.first()
    age = 0.0 if at is None else (read_now() - at).total_seconds()
    return _describe_dead(age) if age > alive_threshold().total_seconds() else None


def _describe_dead(heartbeat_age_seconds: float) -> str:
    return f"has sent no heartbeat for {show_seconds(heartbeat_age_seconds)} and is considered dead"


def each_process(rows: Iterable[ProcessRow]) -> Iterator[ProcessRow]:
    """The processes and their children."""
    for row in rows:
        yield row
        yield from each_process(row.children)


def _build_row(process: Process, now: datetime, usage: Usage) -> ProcessRow:
    metadata, measured = _parse_object(process.metadata), _parse_object(process.measurements)
    age = (now - process.last_heartbeat_at).total_seconds()
    polled_age = None if process.polled_at is None else (now - process.polled_at).total_seconds()
    return ProcessRow(
        id=process.id,
        name=process.name,
        kind=process.kind,
        hostname=process.hostname,
        pid=process.pid,
        supervisor_id=process.supervisor_id,
        version=_text(metadata.get("version")),
        code_version=_text(metadata.get("code_version")),
        started_at=process.started_at,
        heartbeat_age_seconds=max(0.0, age),
        is_alive=age <= alive_threshold().total_seconds(),
        is_polling=_is_polling(process, polled_age, now),
        polled_age_seconds=None if polled_age is None else max(0.0, polled_age),
        lanes=_parse_lanes(measured.get("lanes")),
        loop_lag_seconds=_number(measured.get("lag_seconds")),
        memory_bytes=_whole(measured.get("memory_bytes")),
        stuck_threads=_whole(measured.get("stuck_threads")) or 0,
        running=usage.by_process[process.id],
        actors=parse_actors(process.metadata),
    )


def _is_polling(process: Process, polled_age: float | None, now: datetime) -> bool | None:
    if process.kind == "supervisor":
        return None
    longest = default_max_age().total_seconds()
    if polled_age is None:  # it is starting, and writes when it polled with its next heartbeat
        return None if (now - process.started_at).total_seconds() <= longest else False
    return polled_age <= longest


def _parse_object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _parse_lanes(value: Any) -> list[LaneUse]:
    if not isinstance(value, dict):
        return []
    pairs = [(str(name), pair) for name, pair in value.items() if isinstance(pair, list) and len(pair) == 2]
    uses = [(name, _whole(used), _whole(size)) for name, (used, size) in pairs]
    return [LaneUse(name, used, size) for name, used, size in uses if used is not None and size is not None]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    """A number that was measured; None if it cannot have been: NaN, infinite, negative or very large."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _LARGEST else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
