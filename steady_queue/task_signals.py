"""The framework's signals, sent so that they cost nothing when nobody but its own log listens.

Django's `asend` hops to a thread for each sync receiver, and its own log receivers are sync: over 100 µs for a line
that is usually not even logged. Those are called inline; only receivers that the user connected are worth a hop.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from steady_queue.compat import FRAMEWORK, task_enqueued, task_finished, task_started
from steady_queue.compat import signals as framework_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django.dispatch import Signal

    from steady_queue.compat import BaseTaskBackend, TaskResult

_logger = logging.getLogger(FRAMEWORK)
#: The framework's own receivers, which only write log lines, and the level of those lines.
_OWN: dict[Signal, tuple[Callable[..., Any], int]] = {
    task_enqueued: (framework_signals.log_task_enqueued, logging.DEBUG),
    task_started: (framework_signals.log_task_started, logging.INFO),
    task_finished: (framework_signals.log_task_finished, logging.INFO),
}

#: For each signal and sender: which receivers were connected when it was last looked at, and the answer.
_known: dict[tuple[Signal, type[BaseTaskBackend]], tuple[list[Any], bool]] = {}


def is_heard(signal: Signal, sender: type[BaseTaskBackend]) -> bool:
    """Whether anybody would notice the signal: a receiver of the user's, or the framework's log."""
    return _logger.isEnabledFor(_OWN[signal][1]) or has_receivers(signal, sender)


def has_receivers(signal: Signal, sender: type[BaseTaskBackend]) -> bool:
    """Whether the user connected a receiver. Asked for every job, so it is looked up only when they change."""
    keys = [entry[0] for entry in signal.receivers]
    known = _known.get((signal, sender))
    if known is None or known[0] != keys:
        sync_receivers, async_receivers = signal._live_receivers(sender)
        users = bool(async_receivers) or any(receiver is not _OWN[signal][0] for receiver in sync_receivers)
        known = _known[signal, sender] = (keys, users)
    return known[1]


def send(signal: Signal, sender: type[BaseTaskBackend], results: Iterable[TaskResult[Any]]) -> None:
    """Tell what happened. A receiver that fails is logged: it happened all the same."""
    for result in results:
        signal.send_robust(sender=sender, task_result=result)


async def asend(signal: Signal, sender: type[BaseTaskBackend], results: Iterable[TaskResult[Any]]) -> None:
    """The same from async code, with a hop to a thread only for receivers that the user connected."""
    if has_receivers(signal, sender):
        await sync_to_async(send, thread_sensitive=True)(signal, sender, list(results))
    else:
        send(signal, sender, results)
