"""The framework's signals, sent so that they cost nothing when nobody but its own log listens.

Django's `asend` hops to a thread for each sync receiver, and its own log receivers are sync: over 100 µs for a line
that is usually not even logged. Those are called inline; only receivers that the user connected are worth a hop.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async

from steady_queue.compat import FRAMEWORK, task_enqueued
from steady_queue.compat import signals as framework_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from steady_queue.compat import BaseTaskBackend, TaskResult

_logger = logging.getLogger(FRAMEWORK)
_OWN = {framework_signals.log_task_enqueued}


def enqueued_is_heard(sender: type[BaseTaskBackend]) -> bool:
    """Whether anybody would notice `task_enqueued`: a receiver of the user's, or the framework's log."""
    return _logger.isEnabledFor(logging.DEBUG) or bool(_users_receivers(sender))


def send_enqueued(sender: type[BaseTaskBackend], results: Iterable[TaskResult[Any]]) -> None:
    """Tell that tasks were enqueued. A receiver that fails is logged: the task is stored all the same."""
    for result in results:
        task_enqueued.send_robust(sender=sender, task_result=result)


async def asend_enqueued(sender: type[BaseTaskBackend], results: Iterable[TaskResult[Any]]) -> None:
    """The same from async code, with a hop to a thread only for receivers that the user connected."""
    if _users_receivers(sender):
        await sync_to_async(send_enqueued, thread_sensitive=True)(sender, list(results))
    else:
        send_enqueued(sender, results)


def _users_receivers(sender: type[BaseTaskBackend]) -> list[Callable[..., Any]]:
    sync_receivers, async_receivers = task_enqueued._live_receivers(sender)
    return [*(receiver for receiver in sync_receivers if receiver not in _OWN), *async_receivers]
