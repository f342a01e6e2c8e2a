"""Events: everything that Steady Queue publishes about itself. Each event is a class with fields.

    from steady_queue import events

    @events.subscribe(only=[events.JobFailed])
    def count(event): ...

The log lines of Steady Queue are written by one subscriber, `log`.

    base.py             Event and Fault, the base classes
    jobs.py             events of jobs, queues and recurring tasks
    task_control.py     events of retries, timeouts, cancellation, expiry and uniqueness
    processes.py        events of processes, supervisors and their children
    command.py          events of the command as a whole: its start, sums of its tasks, its end
    faults.py           events of errors that the runtime survives
    subscriptions.py    subscribe, unsubscribe and emit
    tracebacks.py       formats exceptions with a bounded length
    log_limits.py       bounds the length of log lines
    wording.py          how counts, durations and rates are written
"""

from __future__ import annotations

from steady_queue.events import base, command, faults, jobs, processes, subscriptions, task_control
from steady_queue.events.base import *
from steady_queue.events.command import *
from steady_queue.events.faults import *
from steady_queue.events.jobs import *
from steady_queue.events.processes import *
from steady_queue.events.subscriptions import *
from steady_queue.events.task_control import *

__all__ = [
    *base.__all__,
    *command.__all__,
    *faults.__all__,
    *jobs.__all__,
    *processes.__all__,
    *subscriptions.__all__,
    *task_control.__all__,
]
