"""The records of ticks in the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.job import NewJob


@dataclass(slots=True)
class Ticks:
    """The record of each tick: its job, and the hour in which it was made."""

    made: dict[tuple[str, datetime], tuple[UUID, int]] = field(default_factory=dict)

    def last(self, key: str) -> datetime | None:
        return max((at for entry, at in self.made if entry == key), default=None)

    def record(self, ticks: Iterable[tuple[str, datetime, NewJob]], hour: int) -> list[NewJob]:
        """Returns the jobs of those that are new."""
        last = {key: self.last(key) for key, _, _ in ticks}
        won = []
        for key, run_at, new in sorted(ticks, key=lambda tick: tick[:2]):
            before = last[key]
            if (before is None or run_at > before) and (key, run_at) not in self.made:
                self.made[key, run_at] = new.id, hour
                won.append(new)
        return won

    def clear(self, hour: int) -> int:
        """Delete the records of earlier hours, but for the last one of each key."""
        old = [(key, at) for (key, at), (_, made) in self.made.items() if made < hour and at != self.last(key)]
        for tick in old:
            del self.made[tick]
        return len(old)
