"""Banner: what starts, in a few lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from django.db import connections

import steady_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.management.options import ResolvedOptions

#: Django would ask the server for the name of its kind, which may be away.
NAMES = {"postgresql": "PostgreSQL", "mysql": "MySQL or MariaDB", "sqlite": "SQLite"}


def banner(resolved: ResolvedOptions) -> Iterator[str]:
    """Version, database, what runs in how many processes, and how to end it."""
    options, alias = resolved.options, steady_queue.database
    yield f"Steady Queue {steady_queue.__version__} on {NAMES[connections[alias].vendor]} ({alias})"
    for worker in options.workers:
        copies = f", {worker.processes} processes" if worker.processes > 1 else ""
        lanes = f"{worker.coroutines} coroutines, {worker.threads} threads{copies}"
        yield f"  worker      {', '.join(worker.queues)}: {lanes}"
    for dispatcher in [] if options.only_work else options.dispatchers:
        seconds = dispatcher.polling_interval.total_seconds()
        yield f"  dispatcher  at least every {seconds:g} s, {dispatcher.batch_size} tasks at a time"
    for name, value in (("tasks", options.max_tasks), ("MiB", options.max_rss)):
        if value is not None:
            yield f"  a process is replaced after {value:,} {name}"
    if resolved.in_one_loop:
        more = len(options.additional_processes())
        processes = f"one event loop, process {os.getpid()}" + (f", and {more} more" if more else "")
    else:
        processes = f"{len(options.per_process())} processes, kept by process {os.getpid()}"
    until = "until the queues are empty" if resolved.drain else "until TERM or Ctrl-C"
    yield f"  {processes}, {until}"
