"""Unserved: ready jobs that no running process serves, because of their queue or their lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.store.job import SERVED_LANES, Lane
from steady_queue.store.operations.maintenance import steps as maintenance
from steady_queue.store.operations.processes import prune
from steady_queue.store.operations.processes.actors import parse_actors, serves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.aio.maintenance.steps import StepDriver
    from steady_queue.events import Events
    from steady_queue.store.operations.processes.prune import RegisteredProcess


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
    return any(serves(actor, queue, lane) for process in processes for actor in parse_actors(process.metadata))
