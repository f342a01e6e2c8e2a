"""The lines that `manage.py steady_queue` prints when it starts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from django.db import connections

import steady_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.management.options import ResolvedOptions

#: Django would query the server to tell MySQL from MariaDB, and the server may be unavailable.
NAMES = {"postgresql": "PostgreSQL", "mysql": "MySQL or MariaDB", "sqlite": "SQLite"}


def banner(resolved: ResolvedOptions) -> Iterator[str]:
    """The version, the database, what runs in how many processes, and how to stop it."""
    options, alias = resolved.options, steady_queue.database
    yield f"Steady Queue {steady_queue.__version__} on {NAMES[connections[alias].vendor]} ({alias})"
    for worker in options.workers:
        copies = f", {worker.processes} processes" if worker.processes > 1 else ""
        lanes = f"{worker.coroutines} coroutines, {worker.threads} threads{copies}"
        yield f"  worker      {', '.join(worker.queues)}: {lanes}"
    for dispatcher in [] if options.only_work else options.dispatchers:
        seconds = dispatcher.polling_interval.total_seconds()
        yield f"  dispatcher  at least every {seconds:g} s, in batches of {dispatcher.batch_size}"
    if options.max_tasks is not None:
        yield f"  a process is replaced after {options.max_tasks:,} tasks"
    if options.max_rss is not None:
        yield f"  a process is replaced when it uses {options.max_rss:,} MiB"
    if resolved.in_one_loop:
        more = len(options.additional_processes())
        processes = f"one event loop in process {os.getpid()}" + (f", and {more} more processes" if more else "")
    else:
        processes = f"{len(options.per_process())} processes, supervised by process {os.getpid()}"
    until = "until the queues are empty" if resolved.drain else "until TERM or Ctrl-C"
    yield f"  {processes}, {until}"
