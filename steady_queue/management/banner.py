"""The lines that `manage.py steady_queue` prints when it starts: one for each actor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from django.db import connections

import steady_queue
from steady_queue.events.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.aio.command.terminal import Style
    from steady_queue.configuration import Options
    from steady_queue.management.options import ResolvedOptions

#: Django would query the server to distinguish MySQL from MariaDB, and the server may be unavailable.
NAMES = {"postgresql": "PostgreSQL", "mysql": "MySQL or MariaDB", "sqlite": "SQLite"}
ROLE_WIDTH = 11


def banner(resolved: ResolvedOptions, style: Style) -> Iterator[str]:
    """The version, the database, what runs in how many processes, and how to stop it."""
    yield f"{style.bold(f'Steady Queue {steady_queue.__version__}')} on {style.cyan(database_text())}"
    for role, text in actors(resolved):
        yield f"  {style.green(f'{role:<{ROLE_WIDTH}}')} {text}"
    for text in limits(resolved.options):
        yield f"  {style.dim(text)}"
    until = "Runs until the queues are empty; " if resolved.drain else ""
    yield style.dim(f"  {until}Ctrl-C or TERM stops it gracefully, Ctrl-C twice or QUIT at once")


def one_line(resolved: ResolvedOptions) -> str:
    """The same as one line of a log."""
    return "; ".join([*(f"{role} {text}" for role, text in actors(resolved)), *limits(resolved.options)])


def database_text() -> str:
    alias = steady_queue.database
    return f"{NAMES[connections[alias].vendor]} ({alias})"


def actors(resolved: ResolvedOptions) -> Iterator[tuple[str, str]]:
    """The role of each actor and what it does."""
    options = resolved.options
    if resolved.in_one_loop:
        more = len(options.additional_processes())
        children = f" and {counted(more, 'child process', 'child processes')}" if more else ""
        yield "process", f"{os.getpid()}: one event loop{children}"
    else:
        children = counted(len(options.per_process()), "child process", "child processes")
        yield "supervisor", f"process {os.getpid()} with {children}"
    for worker in options.workers:
        copies = f", {counted(worker.processes, 'process', 'processes')}" if worker.processes > 1 else ""
        lanes = f"{counted(worker.coroutines, 'coroutine')}, {counted(worker.threads, 'thread')}"
        yield "worker", f"{worker.selection}: {lanes}{copies}"
    for dispatcher in [] if options.only_work else options.dispatchers:
        seconds = dispatcher.polling_interval.total_seconds()
        yield "dispatcher", f"at least every {seconds:g} s, in batches of {dispatcher.batch_size:,}"
    if options.schedules:
        listed = options.recurring_tasks
        # The command does not import the tasks: the process of the scheduler logs how many the code declares.
        own = "recurring tasks of the code and the database"
        yield "scheduler", own if listed is None else counted(len(listed), "recurring task")


def limits(options: Options) -> Iterator[str]:
    if options.max_tasks is not None:
        yield f"a process is replaced after {counted(options.max_tasks, 'task')}"
    if options.max_rss is not None:
        yield f"a process is replaced when it uses {options.max_rss:,} MiB"
    if options.max_stuck_threads is not None:
        yield f"a process is replaced when it has {counted(options.max_stuck_threads, 'stuck thread')}"
