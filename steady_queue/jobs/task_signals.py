"""Send the framework's signals at no cost when only its own log receivers are connected.

Django's `asend` switches to a thread for each sync receiver, and its own log receivers are sync: over 100 µs for a line
that is usually not even logged. Those receivers are called inline, and only if a handler would emit their line; only
receivers of the project are worth a switch to a thread.
"""

from __future__ import annotations

import inspect
import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from asgiref.sync import sync_to_async

from steady_queue.errors import OrmThreadTimeout
from steady_queue.events import RuntimeFault, emit
from steady_queue.events.log_limits import SelectedLengthLimit
from steady_queue.events.tracebacks import is_oversized, stand_in, traceback_of
from steady_queue.jobs import framework_log
from steady_queue.jobs.compat import signals as framework_signals
from steady_queue.jobs.compat import task_enqueued, task_finished, task_started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django.dispatch import Signal

    from steady_queue.jobs.compat import BaseTaskBackend, TaskResult

#: The framework's own receivers, which only write log lines, and the level of those lines.
_OWN: dict[Signal, tuple[Callable[..., Any], int]] = {
    task_enqueued: (framework_signals.log_task_enqueued, logging.DEBUG),
    task_started: (framework_signals.log_task_started, logging.INFO),
    task_finished: (framework_signals.log_task_finished, logging.INFO),
}
#: The level of `task_finished` if the task has failed.
FAILURE_LEVEL = logging.ERROR


class Receivers(NamedTuple):
    """Which kinds of receivers a signal has: the project's (`users`), the framework's log receiver (`own`)."""

    entries: list[Any]
    users: bool
    own: bool


#: For each signal and sender, what was found when the receivers last changed.
_known: dict[tuple[Signal, type[BaseTaskBackend]], Receivers] = {}
#: Added to the framework's logger when the first oversized exception is logged.
_limit = SelectedLengthLimit()


def is_observed(signal: Signal, sender: type[BaseTaskBackend], level: int | None = None) -> bool:
    """Whether sending the signal has an effect: on a receiver of the project, or in the framework's log."""
    known = _receivers(signal, sender)
    return known.users or (known.own and framework_log.would_emit(level or _OWN[signal][1]))


def is_logged(signal: Signal, sender: type[BaseTaskBackend], level: int | None = None) -> bool:
    """Whether the signal certainly becomes a line in the framework's log, of this level or the usual one."""
    return _receivers(signal, sender).own and framework_log.would_emit(level or _OWN[signal][1], surely=True)


def has_receivers(signal: Signal, sender: type[BaseTaskBackend]) -> bool:
    """Whether the project connected a receiver."""
    return _receivers(signal, sender).users


def _receivers(signal: Signal, sender: type[BaseTaskBackend]) -> Receivers:
    """Return the kinds of receivers. Needed for every job, so the receivers are examined only when they change."""
    known = _known.get((signal, sender))
    if known is None or known.entries != signal.receivers:
        entries = list(signal.receivers)
        sync_receivers, async_receivers = signal._live_receivers(sender)
        log_line = _OWN[signal][0]
        # Monitoring tools wrap each receiver, also the framework's own.
        are_own = [inspect.unwrap(receiver) is log_line for receiver in sync_receivers]
        users = bool(async_receivers) or not all(are_own)
        known = _known[signal, sender] = Receivers(entries, users, any(are_own))
    return known


def send(
    signal: Signal, sender: type[BaseTaskBackend], results: Iterable[TaskResult[Any]], level: int | None = None
) -> None:
    """Send the signal if it has an effect. The error of a receiver is logged: it does not undo what happened."""
    try:
        if is_observed(signal, sender, level):
            _send(signal, sender, results)
    except Exception as error:  # usually of a log handler: Django's dispatcher logs the errors of receivers
        _report(signal, error)


def _send(signal: Signal, sender: type[BaseTaskBackend], results: Iterable[TaskResult[Any]]) -> None:
    error = sys.exc_info()[1]
    if error is not None and is_oversized(error):
        framework_log.logger.addFilter(_limit)
        _limit.stand_ins[id(error)] = stand_in(error)
    try:
        for result in results:
            signal.send_robust(sender=sender, task_result=result)
    finally:
        if error is not None:
            _limit.stand_ins.pop(id(error), None)


async def asend(
    signal: Signal, sender: type[BaseTaskBackend], results: Iterable[TaskResult[Any]], level: int | None = None
) -> None:
    """The async form of `send`, with a switch to a thread only for receivers of the project."""
    if not has_receivers(signal, sender):
        send(signal, sender, results, level)
        return
    given = signal, sender, list(results), level
    try:
        await sync_to_async(send, thread_sensitive=True)(*given)
    except OrmThreadTimeout:
        # Other tasks hold all ORM threads: that must not fail this task.
        await sync_to_async(send, thread_sensitive=False)(*given)
    except Exception as error:  # for example, the threads of a process that has stopped
        _report(signal, error)


def _report(signal: Signal, error: Exception) -> None:
    name = next(name for name, one in vars(framework_signals).items() if one is signal)
    with suppress(Exception):  # the log itself may have failed
        emit(RuntimeFault(where=f"sending {name}", error=traceback_of(error), exception=error))
