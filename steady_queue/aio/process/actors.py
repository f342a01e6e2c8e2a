"""Actors: what runs in a process, as hooks and signals are told of it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from steady_queue.hooks import Actor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.configuration import Options
    from steady_queue.hooks import Kind
    from steady_queue.store.operations.processes import NewProcess


def actors_of(options: Options, process: NewProcess) -> Iterator[Actor]:
    """The workers, dispatchers and the scheduler that a process with these options runs."""

    def actor(kind: Kind, _queues: tuple[str, ...] = (), /, **metadata: Any) -> Actor:
        return actor_of(kind, process, _queues, **metadata)

    for worker in options.workers:
        yield actor(
            "worker",
            tuple(worker.queues),
            queues=",".join(worker.queues),
            polling_interval=worker.polling_interval.total_seconds(),
            coroutines=worker.coroutines,
            threads=worker.threads,
        )
    for dispatcher in () if options.only_work else options.dispatchers:
        yield actor(
            "dispatcher",
            polling_interval=dispatcher.polling_interval.total_seconds(),
            batch_size=dispatcher.batch_size,
            concurrency_maintenance_interval=dispatcher.concurrency_maintenance_interval.total_seconds(),
        )
    if options.schedules:
        yield actor("scheduler")


def actor_of(kind: Kind, process: NewProcess, _queues: tuple[str, ...] = (), /, **metadata: Any) -> Actor:
    """One of them, or a supervisor, in the process that has this row."""
    return Actor(
        kind=kind,
        name=process.name,
        process_id=process.id,
        pid=process.pid,
        hostname=process.hostname,
        supervisor_id=process.supervisor_id,
        queues=_queues,
        metadata=MappingProxyType(metadata),
    )
