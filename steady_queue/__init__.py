"""Background tasks for Django, stored in the database that the application already has.

The settings are attributes of this module, to be assigned in `settings.py`:

    import steady_queue
    steady_queue.process_heartbeat_interval = timedelta(seconds=30)

This module imports nothing of Django, so that `settings.py` can import it first.

Public modules:

    backend.py           the backend of Django's task framework
    concurrency.py       `@limits_concurrency`
    recurring_task.py    `@recurring`
    actions/             retry, cancel, discard, run now, clean up
    queues.py            a queue: size, latency, pause, resume, clear
    testing/             run tasks in tests, and assert which were enqueued
    configuration.py     the options of workers, dispatchers and schedulers
    asgi.py              run tasks in an ASGI server
    hooks.py             functions that processes call when they start, stop or fail
    signals.py           Django signals of processes and queues
    events/              what processes report
    errors.py            every error, as one tree
    processes.py         the errors with which a dead process fails its tasks
    models/              the tables, for queries
    db_router.py         for a queue in a database of its own
    admin.py             registers the dashboard

Internal modules:

    jobs/                define and enqueue tasks, read results
    arguments/           arguments and results as JSON
    recurring/           recurring tasks: definitions, schedules, entries
    db/                  connections to the queue's database, and the caller's transaction
    store/               all SQL: operations, dialects, drivers
    aio/                 the runtime: processes, workers, dispatchers, schedulers, supervisor
    option_checks.py     checks of the values of options
    distribution.py      the names of the distribution, and the mixture with another one
    checks/              system checks, checks before a start, health
    management/          the commands
    monitoring/          what people want to know about the queue
    dashboard/           pages in the Django admin
    templatetags/        what the templates of the dashboard use
    apps.py              the Django app
    migrations/          the migrations of the tables
"""

from __future__ import annotations

import os
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.jobs.definition.backoff import exponential, fixed, steps
    from steady_queue.jobs.definition.task import SteadyQueueTask, task
    from steady_queue.jobs.definition.uniqueness import Unique
    from steady_queue.jobs.enqueueing.enqueue import aenqueue_all, enqueue_all
    from steady_queue.jobs.results.task_result import SteadyQueueResult, TaskState
    from steady_queue.jobs.results.updates import StateChanged, Update
    from steady_queue.jobs.running.context import TaskContext
    from steady_queue.jobs.running.reports import LogLine, Progress
    from steady_queue.jobs.running.requests import GiveUp, Interrupted, RetryLater, Snooze
    from steady_queue.recurring.entries import (
        adisable_recurring_task,
        aenable_recurring_task,
        aschedule_recurring_task,
        aunschedule_recurring_task,
        disable_recurring_task,
        enable_recurring_task,
        schedule_recurring_task,
        unschedule_recurring_task,
    )

__version__ = "0.2.0"

__all__ = [
    "GiveUp",
    "Interrupted",
    "LogLine",
    "Progress",
    "RetryLater",
    "Snooze",
    "StateChanged",
    "SteadyQueueResult",
    "SteadyQueueTask",
    "TaskContext",
    "TaskState",
    "Unique",
    "Update",
    "adisable_recurring_task",
    "aenable_recurring_task",
    "aenqueue_all",
    "aschedule_recurring_task",
    "aunschedule_recurring_task",
    "disable_recurring_task",
    "enable_recurring_task",
    "enqueue_all",
    "exponential",
    "fixed",
    "schedule_recurring_task",
    "steps",
    "task",
    "unschedule_recurring_task",
]

#: How often each process records a heartbeat.
process_heartbeat_interval: timedelta = timedelta(seconds=60)
#: How long after its last heartbeat a process counts as dead.
process_alive_threshold: timedelta = timedelta(minutes=5)
#: How long running tasks may continue after TERM.
shutdown_timeout: timedelta = timedelta(seconds=5)
#: How long an ORM call of an async task waits while other tasks hold all ORM threads with open transactions or cursors.
orm_thread_timeout: timedelta = timedelta(seconds=60)
#: Whether finished jobs are kept in the database, for their results and the dashboard.
preserve_finished_jobs: bool = True
#: How long finished jobs are kept if they are preserved; None: for ever.
clear_finished_jobs_after: timedelta | None = timedelta(days=1)
#: How long failed jobs are kept; None: for ever.
clear_failed_jobs_after: timedelta | None = None
#: How long the statistics of tasks are kept; None: for ever.
statistics_retention: timedelta | None = timedelta(days=30)
#: The `duration` of concurrency limits that have none.
default_concurrency_control_period: timedelta = timedelta(minutes=3)
#: Whether a call that does not fit the signature of its task is refused when it is enqueued.
check_arguments: bool = True
#: The file into which the supervisor writes its process id; None: no file.
supervisor_pidfile: str | os.PathLike[str] | None = None
#: Whether workers on PostgreSQL are woken by NOTIFY. Set it to False behind a pooler in transaction mode.
notify: bool = True
#: The version of the project's code, such as a git hash; None: not known. Processes compare it: see `on_unknown_task`.
code_version: str | None = None
#: Arguments and keys in them whose values the dashboard does not show: patterns of names in lower case, whose words are
#: separated by underscores (`apiKey` is compared as `api_key`).
redacted_arguments: Sequence[str] = (
    *("*password*", "*passwd*", "*passphrase*", "*secret*", "*token*", "*credential*", "*authorization*", "*cookie*"),
    *("key", "*_key", "*apikey*", "auth", "*_auth", "pin", "*_pin", "otp", "*_otp", "otp_*", "cvc", "cvv"),
    *("pwd", "*_pwd"),
)
#: The alias in DATABASES that holds the queue.
database: str = "default"

try:
    #: The directory in which this process was started, unless it was changed before: its children start there as well.
    STARTED_IN = os.getcwd()
except OSError:
    STARTED_IN = ""

_MODULES = {
    "task": "steady_queue.jobs.definition.task",
    "SteadyQueueTask": "steady_queue.jobs.definition.task",
    "RetryLater": "steady_queue.jobs.running.requests",
    "Snooze": "steady_queue.jobs.running.requests",
    "GiveUp": "steady_queue.jobs.running.requests",
    "Interrupted": "steady_queue.jobs.running.requests",
    "Unique": "steady_queue.jobs.definition.uniqueness",
    "exponential": "steady_queue.jobs.definition.backoff",
    "fixed": "steady_queue.jobs.definition.backoff",
    "steps": "steady_queue.jobs.definition.backoff",
    "TaskContext": "steady_queue.jobs.running.context",
    "Progress": "steady_queue.jobs.running.reports",
    "LogLine": "steady_queue.jobs.running.reports",
    "SteadyQueueResult": "steady_queue.jobs.results.task_result",
    "TaskState": "steady_queue.jobs.results.task_result",
    "StateChanged": "steady_queue.jobs.results.updates",
    "Update": "steady_queue.jobs.results.updates",
    "enqueue_all": "steady_queue.jobs.enqueueing.enqueue",
    "aenqueue_all": "steady_queue.jobs.enqueueing.enqueue",
    "schedule_recurring_task": "steady_queue.recurring.entries",
    "aschedule_recurring_task": "steady_queue.recurring.entries",
    "unschedule_recurring_task": "steady_queue.recurring.entries",
    "aunschedule_recurring_task": "steady_queue.recurring.entries",
    "enable_recurring_task": "steady_queue.recurring.entries",
    "aenable_recurring_task": "steady_queue.recurring.entries",
    "disable_recurring_task": "steady_queue.recurring.entries",
    "adisable_recurring_task": "steady_queue.recurring.entries",
}


def __getattr__(name: str) -> object:
    # The public names are in modules that import Django's task framework, which settings.py must not do by accident.
    try:
        module = _MODULES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(module), name)
