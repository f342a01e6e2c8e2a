"""Connections: the few that the runtime has to its database, whatever number of tasks run.

Three, and a fourth that listens; on SQLite, which has one writer, a single one. Claims and unlimited settles overlap on
two of them, which gains a third in throughput (measured). Heartbeats and notifications go with those settles, which
wait for nobody's locks; what may have to wait for a concurrency key (limited settles, dispatching, maintenance) has a
connection to itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.aio.driver import DeadlineDriver
from steady_queue.db.aliases import open_async

if TYPE_CHECKING:
    from steady_queue.aio.lease import Lease

#: How long an operation may take at most, in seconds.
LONGEST = 30.0


def within(trusted: float) -> float:
    """How long an operation may take in a process that trusts itself for so long: a part of that."""
    return max(1.0, min(LONGEST, trusted / 4))


class Connections:
    """Opened when they are first used; no statement on them waits longer than a quarter of the time of trust."""

    def __init__(self, alias: str, trust: Lease) -> None:
        seconds = within(trust.duration_seconds)
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
