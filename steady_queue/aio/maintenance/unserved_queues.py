"""Unserved: ready jobs that no running process serves, because of their queue or their lane."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from steady_queue import events
from steady_queue.store.job import SERVED_LANES, Lane
from steady_queue.store.operations import maintenance, prune
from steady_queue.store.queue_selection import QueueSelection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steady_queue.aio.maintenance.steps import StepDriver
    from steady_queue.events import Events
    from steady_queue.store.operations.prune import RegisteredProcess


async def warn_of_unserved(driver: StepDriver, emitter: Events) -> None:
    """Emit an event for ready jobs in queues or lanes that no running process serves, or that this version cannot."""
    waiting = await driver.run(maintenance.find_waiting_lanes(driver.sql))
    if not waiting:
        return
    processes = await driver.run(prune.find_processes(driver.sql))
    unserved: list[str] = []
    for queue, lane in waiting:
        # Not failed: during a deployment the job may belong to the next version, whose processes will run it.
        if lane not in SERVED_LANES:
            emitter.emit(events.UnknownLane(queue_name=queue, lane=lane))
        elif not _is_served(queue, Lane(lane), processes):
            unserved.append(f"{queue} ({Lane(lane).name.lower()})")
    if unserved:
        emitter.emit(events.QueueNotServed(where=", ".join(unserved)))


def _is_served(queue: str, lane: Lane, processes: Sequence[RegisteredProcess]) -> bool:
    return any(_serves(actor, queue, lane) for process in processes for actor in _actors(process))


def _actors(process: RegisteredProcess) -> list[Mapping[str, Any]]:
    """Return the actors of a process, as far as its row lists them in the format of this version."""
    try:
        actors = json.loads(process.metadata)["actors"]
    except (ValueError, KeyError, TypeError):
        return []
    return [actor for actor in actors if isinstance(actor, dict)] if isinstance(actors, list) else []


def _serves(actor: Mapping[str, Any], queue: str, lane: Lane) -> bool:
    patterns: Any = actor.get("queues")
    excluded: Any = actor.get("exclude_queues", [])
    for names in (patterns, excluded):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return False
    serves_queue = QueueSelection.of(patterns, excluded).serves(queue)
    return actor.get("kind") == "worker" and bool(actor.get(lane.name.lower())) and serves_queue
