"""Awaited jobs: which jobs other processes wait for, and the notifications that these have changed.

A process that waits for results announces the ids by NOTIFY. They are kept in memory for a while, and bounded: a lost
announcement costs the waiting process a polling interval. While nothing is announced, a batch of outcomes costs two
looks at empty collections.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from steady_queue.db import watcher
from steady_queue.db.result_channel import ANNOUNCEMENT_SECONDS
from steady_queue.errors import StoreError
from steady_queue.store.operations.notify import announce_changes, parse_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from uuid import UUID

    from steady_queue.aio.timing import Clock
    from steady_queue.store.drivers.pool import AsyncDriver

#: How many announced jobs are kept.
MAX_ANNOUNCED = 20_000
#: How many jobs one statement names.
BATCH_SIZE = 2_000


class Announced:
    """The announced jobs of one kind, the oldest announcement first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[UUID, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def add(self, job_ids: Iterable[UUID]) -> None:
        now = self._clock.monotonic()
        for id_ in job_ids:
            self._until.pop(id_, None)
            self._until[id_] = now + ANNOUNCEMENT_SECONDS
        expired = next((at for at, until in enumerate(self._until.values()) if until > now), len(self._until))
        for id_ in list(self._until)[: max(expired, len(self._until) - MAX_ANNOUNCED)]:
            del self._until[id_]

    def among(self, job_ids: Iterable[UUID]) -> list[UUID]:
        return [id_ for id_ in job_ids if id_ in self._until]


class AwaitedJobs:
    """Notifies the processes that wait for jobs of this process."""

    def __init__(self, alias: str, *, driver: AsyncDriver, clock: Clock) -> None:
        self._alias = alias
        self._driver = driver
        self._awaited = Announced(clock)
        self._followed = Announced(clock)
        self._changed: dict[UUID, None] = {}
        self._wake = asyncio.Event()

    def announce_awaited(self, ids: str) -> None:
        """A process waits for the end of these jobs."""
        self._awaited.add(parse_ids(ids))

    def announce_followed(self, ids: str) -> None:
        """A process wants to know of every change of these jobs."""
        self._followed.add(parse_ids(ids))

    def settled(self, job_ids: Callable[[], Sequence[UUID]]) -> None:
        """These attempts have ended, and that is committed. The ids are built only if they may be needed."""
        if self._awaited or self._followed or watcher.is_watching(self._alias):
            ids = job_ids()
            self._put(ids, {*self._awaited.among(ids), *self._followed.among(ids)})

    def changed(self, job_ids: Callable[[], Sequence[UUID]]) -> None:
        """These jobs were started, or have reported progress or a line of their log, and that is committed."""
        if self._followed or watcher.is_watching(self._alias):
            ids = job_ids()
            self._put(ids, self._followed.among(ids), has_ended=False)

    def _put(self, ids: Sequence[UUID], announced: Collection[UUID], *, has_ended: bool = True) -> None:
        watcher.hint(self._alias, ids, has_ended=has_ended)
        if announced:
            self._changed.update(dict.fromkeys(announced))
            self._wake.set()

    async def run(self) -> None:
        """Send the notifications. What changes while one is sent goes into the next."""
        while True:
            await self._wake.wait()
            batch = list(self._changed)[:BATCH_SIZE]
            for id_ in batch:
                del self._changed[id_]
            if not self._changed:
                self._wake.clear()
            with suppress(StoreError):  # polling finds the changes
                await self._driver.run(announce_changes(self._driver.sql, batch))
