"""Signals of operation, for code that would rather connect to a Django signal than register a hook.

    process_started, process_stopped     what runs in this process: worker, dispatcher, scheduler or supervisor
    process_restarted                    sent by a supervisor that has filled the place of a child
    queue_paused, queue_resumed          by whom and wherever it was done, after the commit
                                         (under set_autocommit(False), which tells nobody of its commit, never)

Of a process they tell `process_kind`, `process_name`, `pid`, `hostname` and `metadata`; when it has stopped also
`error`, None after a stop that was asked for; when it was restarted also `exitcode` (None while it still ends),
`replacement_pid` and `supervisor_pid`. Of a queue, `queue_name` and `changed`: whether it was not so before.

A receiver that raises is reported and does no harm. Those of tasks are the framework's: see task_signals.py.
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
    """The sender of what is told of processes."""


class QueueLifecycle:
    """The sender of what is told of queues."""


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
_OF_QUEUES = {QueuePaused: queue_paused, QueueResumed: queue_resumed}


def emit_and_send(event: Event) -> None:
    """Tell an event, and send the signal that goes with it if there is one."""
    emit(event)
    signal = _OF_QUEUES.get(type(event))
    if signal is not None:
        for fault in receiver_faults(signal, signal.send_robust(sender=QueueLifecycle, **vars(event))):
            emit(fault)


async def aemit_and_send(event: Event) -> None:
    emit(event)
    signal = _OF_QUEUES.get(type(event))
    if signal is not None:
        for fault in receiver_faults(signal, await signal.asend_robust(sender=QueueLifecycle, **vars(event))):
            emit(fault)


def receiver_faults(signal: Signal, answers: Iterable[tuple[Any, Any]]) -> list[RuntimeFault]:
    """What became of the receivers that raised."""
    return [
        RuntimeFault(
            where=f"the receiver {name_of(receiver)} of {_NAMES[signal]}",
            error=traceback_of(answer),
            exception=answer,
        )
        for receiver, answer in answers
        if isinstance(answer, BaseException)
    ]
