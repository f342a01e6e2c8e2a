"""Wake-ups: an enqueue tells workers that there is something to claim, in this process directly, elsewhere by NOTIFY.

Only a hint: a lost one costs a polling interval. It is sent after commit, and not again within a few milliseconds: a
worker that was woken looks again 10, 50 and 250 ms later by itself.

Commits that notify queue up behind each other on the server, so a busy process never notifies with the statement that
enqueues. A quiet one does, in its own transactions: that saves a round trip and a commit, a fifth of the time from the
enqueue to the start (measured), and such commits are too rare to meet.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from steady_queue.errors import StoreError
from steady_queue.store.operations.notify import notify

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.sql import Dialect

#: Can be switched off, when nobody listens or a pooler stands between.
is_notifying = True
#: How long after a notification another one is superfluous, in seconds.
QUIET = 0.005
#: How long a process must have sent none before one may go with the statement that enqueues, in seconds.
LONG_QUIET = 0.025

_local: defaultdict[str, set[Callable[[], None]]] = defaultdict(set)
_last_sent: dict[str, float] = {}
_lock = threading.Lock()


def listen_locally(alias: str, ring: Callable[[], None]) -> Callable[[], None]:
    """Have `ring` called, from any thread, when this process enqueues into the alias; returns how to end it."""
    _local[alias].add(ring)
    return lambda: _local[alias].discard(ring)


def is_wanted(alias: str, sql: Dialect) -> bool:
    """Whether anybody could hear."""
    return bool(_local.get(alias)) or (is_notifying and sql.can_notify)


def may_go_along(alias: str, sql: Dialect) -> bool:
    """Whether a notification may go with the statement that enqueues, which is then taken for sent."""
    return _may_notify(alias, sql, LONG_QUIET)


def tell(alias: str, driver: DjangoDriver, *, told: bool = False) -> None:
    """Wake workers, from sync code, after commit; only those of this process when the others were told."""
    _ring_locally(alias)
    if not told and _may_notify(alias, driver.sql, QUIET):
        with suppress(StoreError):  # the jobs are stored; polling finds them
            driver.run(notify(driver.sql))


async def atell(alias: str, driver: AsyncDriver, *, told: bool = False) -> None:
    """The same from async code."""
    _ring_locally(alias)
    if not told and _may_notify(alias, driver.sql, QUIET):
        with suppress(StoreError):
            await driver.run(notify(driver.sql))


async def wake_all(driver: AsyncDriver, wake: Callable[[], None] | None = None) -> None:
    """Wake the workers of all processes after jobs became ready; `wake` wakes those of this process.

    It always notifies: unlike an enqueue, it comes once for many jobs.
    """
    if wake is not None:
        wake()
    if is_notifying and driver.sql.can_notify:
        with suppress(StoreError):  # only a hint: the jobs are ready, and polling finds them
            await driver.run(notify(driver.sql))


def _ring_locally(alias: str) -> None:
    for ring in list(_local.get(alias, ())):
        ring()


def _may_notify(alias: str, sql: Dialect, quiet: float) -> bool:
    if not (is_notifying and sql.can_notify):
        return False
    with _lock:
        now = time.monotonic()
        if now - _last_sent.get(alias, -inf) < quiet:
            return False
        _last_sent[alias] = now
    return True
