"""Wake-ups: an enqueue tells workers that there is something to claim, in this process directly, elsewhere by NOTIFY.

Only a hint: a lost one costs a polling interval. One notification is on its way per process at a time; what is enqueued
meanwhile is covered by one more after it.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING

from steady_queue.errors import StoreError
from steady_queue.store.notify import notify

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.drivers.pool import AsyncDriver

#: Can be switched off, when nobody listens or a pooler stands between.
is_notifying = True
#: Sync code does not notify again within this time, in seconds: workers look again by themselves after each wake.
QUIET = 0.005

_local: defaultdict[str, set[Callable[[], None]]] = defaultdict(set)
_last_sent = 0.0
_lock = threading.Lock()


def listen_locally(alias: str, ring: Callable[[], None]) -> Callable[[], None]:
    """Have `ring` called, from any thread, when this process enqueues into the alias; returns how to end it."""
    _local[alias].add(ring)
    return lambda: _local[alias].discard(ring)


def ring_locally(alias: str) -> None:
    for ring in list(_local[alias]):
        ring()


def tell(alias: str, driver: DjangoDriver) -> None:
    """From sync code, after commit."""
    global _last_sent
    ring_locally(alias)
    if not (is_notifying and driver.sql.can_notify):
        return
    with _lock:
        now = time.monotonic()
        if now - _last_sent < QUIET:
            return
        _last_sent = now
    with suppress(StoreError):  # the jobs are stored; polling finds them
        driver.run(notify(driver.sql))


class Teller:
    """From async code, after commit: one notification in flight, and one more if something was enqueued meanwhile."""

    def __init__(self, alias: str, driver: AsyncDriver) -> None:
        self._alias = alias
        self._driver = driver
        self._is_sending = False
        self._again = False

    async def tell(self) -> None:
        ring_locally(self._alias)
        if not (is_notifying and self._driver.sql.can_notify):
            return
        self._again = True
        if self._is_sending:
            return
        self._is_sending = True
        try:
            while self._again:
                self._again = False
                await self._driver.run(notify(self._driver.sql))
        except StoreError:
            pass  # the jobs are stored; polling finds them
        finally:
            self._is_sending = False
