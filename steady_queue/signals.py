"""Django signals about processes and queues, for code that prefers a signal to a hook.

    process_started, process_stopped     sent in the process of the worker, dispatcher, scheduler or supervisor
    process_restarted                    sent by a supervisor that has replaced a child
    queue_paused, queue_resumed          sent after the commit, in the process that paused or resumed the queue
                                         (never under set_autocommit(False): Django does not report its commits)

Signals of processes have the arguments `process_kind`, `process_name`, `pid`, `hostname` and `metadata`;
`process_stopped` also has `error` (None after a requested stop); `process_restarted` also has `exitcode` (None if the
child has not exited yet), `replacement_pid` and `supervisor_pid`. Signals of queues have `queue_name` and `changed`,
which is False if the queue was already in that state.

An exception in a receiver is reported and affects nothing else. Signals of tasks belong to Django: see
jobs/task_signals.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.dispatch import Signal

from steady_queue.events import QueuePaused, QueueResumed, RuntimeFault, emit
from steady_queue.events.base import name_of
from steady_queue.events.tracebacks import traceback_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from steady_queue.events import Event


class ProcessLifecycle:
    """The sender of signals of processes."""


class QueueLifecycle:
    """The sender of signals of queues."""


process_started = Signal()
process_stopped = Signal()
process_restarted = Signal()
queue_paused = Signal()
queue_resumed = Signal()

_NAMES = {
    process_started: "process_started",
    process_stopped: "process_stopped",
    process_restarted: "process_restarted",
    queue_paused: "queue_paused",
    queue_resumed: "queue_resumed",
}
_QUEUE_SIGNALS = {QueuePaused: queue_paused, QueueResumed: queue_resumed}


def emit_and_send(event: Event) -> None:
    """Emit an event, and send the signal that belongs to it, if there is one.

    Not a subscriber of events: subscribers are sync, while `aemit_and_send` awaits async receivers.
    """
    emit(event)
    signal = _QUEUE_SIGNALS.get(type(event))
    if signal is not None:
        for fault in receiver_faults(signal, signal.send_robust(sender=QueueLifecycle, **vars(event))):
            emit(fault)


async def aemit_and_send(event: Event) -> None:
    emit(event)
    signal = _QUEUE_SIGNALS.get(type(event))
    if signal is not None:
        for fault in receiver_faults(signal, await signal.asend_robust(sender=QueueLifecycle, **vars(event))):
            emit(fault)


def receiver_faults(signal: Signal, responses: Iterable[tuple[Any, Any]]) -> list[RuntimeFault]:
    """An event for each receiver that raised an exception."""
    return [
        RuntimeFault(
            where=f"the receiver {name_of(receiver)} of {_NAMES[signal]}",
            error=traceback_of(response),
            exception=response,
        )
        for receiver, response in responses
        if isinstance(response, BaseException)
    ]
