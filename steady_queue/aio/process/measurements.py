"""Measurements: what a heartbeat stores about the state of its process, for people who watch the queue."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from steady_queue.aio.process.recycling import resident_bytes
from steady_queue.store.job import SERVED_LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steady_queue.aio.worker.capacity import Capacity


def _no_lag() -> float:
    return 0.0


class Measurements:
    """Of one process; `take_lag` returns the longest lag of the event loop since it was called before."""

    def __init__(self, capacities: Sequence[Capacity] = (), take_lag: Callable[[], float] = _no_lag) -> None:
        self._capacities = capacities
        self._take_lag = take_lag

    def take(self, late_seconds: float) -> str:
        """Return the measurements as JSON. `late_seconds`: how much too late the heartbeat was woken."""
        running = [each for capacity in self._capacities for each in capacity.running.values() if each.has_begun]
        used = Counter(each.claim.lane for each in running)
        sizes = {lane: sum(capacity.sizes[lane] for capacity in self._capacities) for lane in SERVED_LANES}
        return json.dumps(
            {
                "lanes": {lane.name.lower(): (used[lane], size) for lane, size in sizes.items()},
                "lag_seconds": round(max(late_seconds, self._take_lag()), 3),
                "memory_bytes": resident_bytes(),
                "running": len(running),
                "stuck_threads": sum(capacity.stuck_threads for capacity in self._capacities),
            }
        )
