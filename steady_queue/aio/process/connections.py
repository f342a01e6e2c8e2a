"""Connections: the few database connections of the runtime, however many tasks run.

Three, and a fourth that listens; on SQLite, which has one writer, a single one. Claims and unlimited settles overlap on
two of them, which gains a third in throughput (measured). Heartbeats and notifications share the connection of those
settles, which wait for no locks; what may have to wait for a concurrency key (limited settles, dispatching,
maintenance) has a connection of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.aio.deadline_driver import DeadlineDriver
from steady_queue.db.aliases import open_async

if TYPE_CHECKING:
    from steady_queue.aio.lease import Lease

#: How long an operation may take at most.
LONGEST_OPERATION_SECONDS = 30.0


def operation_timeout(lease: Lease) -> float:
    """Return how many seconds an operation may take: a quarter of the lease."""
    return max(1.0, min(LONGEST_OPERATION_SECONDS, lease.duration_seconds / 4))


class Connections:
    """Opened when they are first used; no statement on them waits longer than a quarter of the lease."""

    def __init__(self, alias: str, lease: Lease) -> None:
        seconds = operation_timeout(lease)
        self.hot = DeadlineDriver(open_async(alias, size=1), seconds)
        self._all = [self.hot]
        if self.hot.sql.change_marker:
            self.settling = self.upkeep = self.hot
        else:
            self.settling = DeadlineDriver(open_async(alias, size=1), seconds)
            self.upkeep = DeadlineDriver(open_async(alias, size=1), seconds)
            self._all += [self.settling, self.upkeep]

    async def close(self) -> None:
        for driver in self._all:
            await driver.close()
