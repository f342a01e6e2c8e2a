"""Background tasks for Django, kept in the database the application already has.

Settings are plain attributes of this module, to be assigned in `settings.py`:

    import steady_queue
    steady_queue.process_heartbeat_interval = timedelta(seconds=30)

Nothing of Django is imported here, so that `settings.py` may import this module first.
"""

from __future__ import annotations

import os
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steady_queue.jobs.enqueue import aenqueue_all, enqueue_all
    from steady_queue.jobs.task import SteadyQueueTask, task
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

__version__ = "0.1.0"

__all__ = [
    "SteadyQueueTask",
    "adisable_recurring_task",
    "aenable_recurring_task",
    "aenqueue_all",
    "aschedule_recurring_task",
    "aunschedule_recurring_task",
    "disable_recurring_task",
    "enable_recurring_task",
    "enqueue_all",
    "schedule_recurring_task",
    "task",
    "unschedule_recurring_task",
]

#: How often each process says that it is alive.
process_heartbeat_interval: timedelta = timedelta(seconds=60)
#: How long after its last heartbeat a process counts as dead.
process_alive_threshold: timedelta = timedelta(minutes=5)
#: How long running tasks may go on after TERM.
shutdown_timeout: timedelta = timedelta(seconds=5)
#: How long an ORM call of an async task waits while other tasks hold all ORM threads with open transactions or cursors.
orm_thread_timeout: timedelta = timedelta(seconds=60)
#: Whether finished jobs stay in the database, for their results and the dashboard.
preserve_finished_jobs: bool = True
#: How long finished jobs are kept when they are preserved; None for ever.
clear_finished_jobs_after: timedelta | None = timedelta(days=1)
#: How long failed jobs are kept; None for ever.
clear_failed_jobs_after: timedelta | None = None
#: When maintenance starts to look for concurrency slots that nobody owns.
default_concurrency_control_period: timedelta = timedelta(minutes=3)
#: Where the supervisor writes its process id; nowhere by default.
supervisor_pidfile: str | os.PathLike[str] | None = None
#: Whether PostgreSQL workers are woken by NOTIFY; False behind a pooler in transaction mode, or without listeners.
notify: bool = True
#: The alias in DATABASES that holds the queue.
database: str = "default"

try:
    #: Where this process was started, if nothing has changed the directory before: its children start there as well.
    STARTED_IN = os.getcwd()
except OSError:
    STARTED_IN = ""

_HOMES = {
    "task": "steady_queue.jobs.task",
    "SteadyQueueTask": "steady_queue.jobs.task",
    "enqueue_all": "steady_queue.jobs.enqueue",
    "aenqueue_all": "steady_queue.jobs.enqueue",
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
    # The public names live in modules that import Django's task framework, which settings.py must not do by accident.
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(home), name)
