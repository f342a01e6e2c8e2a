"""Result channel: how a process that waits for results learns from PostgreSQL that workers have changed the jobs.

The process announces for which jobs it waits; the workers notify it of these. With each announcement it sends itself a
notification: as long as that is not received, for example behind a pooler, the watcher relies on polling alone.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import steady_queue
from steady_queue.db.aliases import connection_parameters, is_pooled_by_server
from steady_queue.errors import StoreError
from steady_queue.store.names import RESULTS_CHANNEL
from steady_queue.store.operations.notify import announce_waits, parse_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from steady_queue.db.watch import Watch
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.drivers.postgres import PostgresLink

#: How long a worker knows of an announcement at least, and how often it is repeated.
ANNOUNCEMENT_SECONDS, REPEAT_SECONDS = 30.0, 10.0
#: How long opening the connection may take, and how long it is not tried again after that has failed.
CONNECT_SECONDS, RECONNECT_SECONDS = 5.0, 5.0
#: How long the process's own notification may take.
PROBE_SECONDS = 2.0


class ResultChannel:
    """The listening connection of a watcher."""

    def __init__(self, alias: str, driver: AsyncDriver, on_changes: Callable[[Iterable[UUID]], None]) -> None:
        self._alias = alias
        self._driver = driver
        self._on_changes = on_changes
        self._link: PostgresLink | None = None
        self._connect_at = 0.0
        self._connected_at = 0.0
        self._probe = ""
        self._probe_sent_at: float | None = None
        self._is_confirmed = False

    @property
    def is_listening(self) -> bool:
        """Whether the process received the last notification that it sent itself, or may still receive it."""
        if self._link is None or not self._link.is_open or not steady_queue.notify:
            return False
        late = self._probe_sent_at is not None and time.monotonic() - self._probe_sent_at > PROBE_SECONDS
        return self._is_confirmed and not late

    async def announce(self, watches: Iterable[Watch]) -> None:
        """Listen, and announce those jobs that were not announced recently."""
        if not may_listen(self._alias, self._driver) or not await self._connect():
            return
        now = time.monotonic()
        new = [watch for watch in watches if _is_due(watch, now, self._connected_at)]
        if not new:
            return
        self._probe = uuid4().hex[:16]
        if self._probe_sent_at is None:
            self._probe_sent_at = now
        followed = {watch.job_id for watch in new if watch.follows}
        awaited = {watch.job_id for watch in new} - followed
        try:
            await self._driver.run(announce_waits(self._driver.sql, list(awaited), list(followed), self._probe))
        except StoreError:
            return
        for watch in new:
            watch.announced_at = now

    def close(self) -> None:
        if self._link is not None:
            self._link.abandon()
            self._link = None

    async def _connect(self) -> bool:
        if self._link is not None and self._link.is_open:
            return True
        if time.monotonic() < self._connect_at:
            return False
        self.close()
        self._is_confirmed = False
        self._connect_at = time.monotonic() + RECONNECT_SECONDS
        from steady_queue.store.drivers import postgres  # not imported for other databases

        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                parameters = connection_parameters(self._alias)
                self._link = await postgres.listen(parameters, RESULTS_CHANNEL, self._receive, lambda: None)
        except (StoreError, OSError, TimeoutError):
            return False
        self._connected_at = time.monotonic()
        self._probe_sent_at = None
        return True

    def _receive(self, payload: str) -> None:
        if payload == self._probe:
            self._probe_sent_at = None
            self._is_confirmed = True
        else:
            self._on_changes(parse_ids(payload))


def may_listen(alias: str, driver: AsyncDriver) -> bool:
    """Whether the database can notify this process."""
    return steady_queue.notify and driver.sql.can_notify and not is_pooled_by_server(alias)


def _is_due(watch: Watch, now: float, connected_at: float) -> bool:
    at = watch.announced_at
    return at is None or at < connected_at or now - at > REPEAT_SECONDS
