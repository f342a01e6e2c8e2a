"""Wake workers after an enqueue: those of this process by a call, those of other processes by NOTIFY.

Other services are woken in the same way: `announce` names a topic, which is the payload of the notification.

A notification is only a hint: a lost one costs a polling interval. It is sent after commit, and not again within a few
milliseconds: a worker that was woken polls again 10, 50 and 250 ms later by itself.

Commits that notify queue up behind each other on the server, so a busy process never notifies with the statement that
enqueues. A quiet one does, in its own transactions: that saves a round trip and a commit, a fifth of the time from the
enqueue to the start (measured), and such commits are too rare to queue up. `steady_queue.notify = False` turns all
notifications off.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

import steady_queue
from steady_queue.errors import StoreError
from steady_queue.store.operations.notify import notify

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.sql import Dialect

#: The topics: jobs are ready or scheduled, and running jobs are to be cancelled.
WORKERS, CANCELLATIONS = "", "cancel"
#: A process is asked for something.
REQUESTS = "request"
#: Topics that do not concern every service: a dispatcher has made jobs ready, and scheduled jobs are due soon.
DISPATCHED, DUE_SOON = "dispatched", "due"
#: For how long after a notification this process does not send another one.
MIN_INTERVAL_SECONDS = 0.005
#: After so much time without a notification, a process may send one with the statement that enqueues.
QUIET_SECONDS = 0.025

_local: defaultdict[tuple[str, str], set[Callable[[], None]]] = defaultdict(set)
_last_sent: dict[str, float] = {}
_lock = threading.Lock()


def listen_locally(alias: str, wake: Callable[[], None], topic: str = WORKERS) -> Callable[[], None]:
    """Call `wake`, from any thread, when this process announces the topic; returns a function that ends this.

    An enqueue into the alias announces the topic of the workers.
    """
    _local[alias, topic].add(wake)
    return lambda: _local[alias, topic].discard(wake)


def has_listeners(alias: str, sql: Dialect) -> bool:
    """Whether a worker may be listening, in this process or in another one."""
    return bool(_local.get((alias, WORKERS))) or (steady_queue.notify and sql.can_notify)


def reserve_notification(alias: str, sql: Dialect) -> bool:
    """Whether a notification goes with the statement that enqueues; True records it as sent."""
    return _reserve(alias, sql, QUIET_SECONDS)


def wake_workers(alias: str, driver: DjangoDriver, *, notified: bool = False) -> None:
    """Wake workers, from sync code, after commit; with `notified`, only those of this process."""
    _wake_locally(alias)
    if not notified and _reserve(alias, driver.sql, MIN_INTERVAL_SECONDS):
        with suppress(StoreError):  # the jobs are stored; polling finds them
            driver.run(notify(driver.sql))


async def awake_workers(alias: str, driver: AsyncDriver, *, notified: bool = False) -> None:
    """The async form of `wake_workers`."""
    _wake_locally(alias)
    if not notified and _reserve(alias, driver.sql, MIN_INTERVAL_SECONDS):
        with suppress(StoreError):
            await driver.run(notify(driver.sql))


async def wake_all(driver: AsyncDriver, wake: Callable[[], None] | None = None, topic: str = WORKERS) -> None:
    """Wake the caller's own services by `wake`, and all other processes by NOTIFY: jobs of any process became ready."""
    if wake is not None:
        wake()
    if steady_queue.notify and driver.sql.can_notify:
        with suppress(StoreError):  # the jobs are ready; polling finds them
            await driver.run(notify(driver.sql, topic))


def announce(alias: str, driver: DjangoDriver, topic: str) -> None:
    """Wake the services that wait for a topic, in all processes; from sync code, after commit."""
    _wake_locally(alias, topic)
    if steady_queue.notify and driver.sql.can_notify:
        with suppress(StoreError):  # what is announced is stored; polling finds it
            driver.run(notify(driver.sql, topic))


async def aannounce(alias: str, driver: AsyncDriver, topic: str) -> None:
    """The async form of `announce`."""
    _wake_locally(alias, topic)
    if steady_queue.notify and driver.sql.can_notify:
        with suppress(StoreError):
            await driver.run(notify(driver.sql, topic))


def _wake_locally(alias: str, topic: str = WORKERS) -> None:
    for wake in list(_local.get((alias, topic), ())):
        wake()


def _reserve(alias: str, sql: Dialect, interval_seconds: float) -> bool:
    if not (steady_queue.notify and sql.can_notify):
        return False
    with _lock:
        now = time.monotonic()
        if now - _last_sent.get(alias, -inf) < interval_seconds:
            return False
        _last_sent[alias] = now
    return True
