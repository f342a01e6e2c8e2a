"""The asyncio runtime: it claims jobs, runs their tasks and writes their outcomes. The path of one task, in order:

    ../backend.py, ../jobs/         enqueue() stores a job and its ready row in the caller's transaction
    ../db/notify.py                 wakes the workers of this process directly, those of other processes by NOTIFY
    listener.py                     receives the notification in another process
    wake_ups.py                     wakes the workers and dispatchers of a process
    worker/worker.py                claims ready jobs for its free capacity; worker/queues.py chooses the queues
    worker/capacity.py              starts each job in the event loop or in a thread
    worker/executor.py              runs the task and returns its outcome
    worker/settler.py               writes outcomes, in batches

A delayed task passes through dispatcher.py first, a recurring one through scheduler/.

Packages:

    worker/         claims, runs and settles jobs
    orm_threads/    the threads that run the ORM calls of async tasks
    scheduler/      enqueues recurring tasks when they are due
    maintenance/    repairs what dead processes have left, promotes blocked jobs, deletes old jobs
    process/        builds the services of one process, and starts and stops them
    supervisor/     starts, watches, restarts and stops child processes
    command/        the management command: from options to an exit status

Modules:

    dispatcher.py   moves scheduled jobs that are due to their queues
    listener.py     receives the notifications of other processes
    wake_ups.py     wakes the services of this process, and the workers of other processes
    lease.py        until when a process may act on its claims
    process_identity.py     how the row of a process identifies it, and whether a process of this machine still exists
    outage.py       the pauses and events of a service while the database is unavailable
    deadline_driver.py       a driver whose operations have a deadline
    context.py      the clock, the events and the outages that the services of a process share
    timing.py       the clock, an event that wakes a service, yielding to the event loop
    embedding.py    runs a process inside an event loop of the application
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steady_queue.aio.embedding import running
    from steady_queue.aio.process.process import Process

__all__ = ["Process", "running"]

_HOMES = {"Process": "steady_queue.aio.process.process", "running": "steady_queue.aio.embedding"}


def __getattr__(name: str) -> object:
    # A health probe needs one small module of the runtime, and is not to import all of it.
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(home), name)
