"""Position: what one child of a supervisor runs, and when the next child may start in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from steady_queue.aio.supervisor.child import Child, ChildExit
    from steady_queue.configuration import Options

#: Only an unrequested exit within so many seconds of the start counts as an early crash.
EARLY_CRASH_SECONDS = 10.0
#: The delay before the second replacement in a row after early crashes; it doubles up to the longest.
FIRST_RESTART_SECONDS, LONGEST_RESTART_SECONDS = 0.5, 30.0


@dataclass(slots=True, eq=False)
class Position:
    """Kept filled: a child that exits is replaced."""

    options: Options
    child: Child | None = None
    #: A recycled child that finishes its last tasks while its replacement works. At most one, or there is no bound.
    recycled: Child | None = None
    #: Whether any child has worked in this position.
    has_worked: bool = False
    #: How many children in a row crashed early, and when the next may start.
    early_crashes: int = 0
    not_before: float = 0.0
    #: The child that the next one replaces, and its exit status if it has exited.
    replaced: Child | None = None
    replaced_status: int | None = None

    def recycle_child(self) -> None:
        """Make room for a replacement if the child takes no more tasks."""
        if self.child is not None and self.recycled is None and self.child.state.get("is_recycling"):
            self.recycled, self.replaced, self.replaced_status = self.child, self.child, None
            self.child = None

    def remove(self, exited: ChildExit, now: float) -> float:
        """Forget a child that has exited; returns how long its replacement has to wait."""
        child, delay = exited.child, 0.0
        self.has_worked = self.has_worked or "running" in child.state
        if child is self.recycled:
            self.recycled = None
            return delay
        self.child, self.replaced, self.replaced_status = None, child, exited.status
        is_early_crash = now - child.started_at < EARLY_CRASH_SECONDS and not exited.was_requested
        self.early_crashes = self.early_crashes + 1 if is_early_crash else 0
        if self.early_crashes > 1:
            delay = _restart_delay(self.early_crashes - 2)
        self.not_before = now + delay
        return delay

    def delay_start(self, now: float) -> None:
        """A process could not be started: that counts as an early crash."""
        self.early_crashes += 1
        self.not_before = now + _restart_delay(self.early_crashes)


class Replacement(NamedTuple):
    """A child that was started in the position of another, which exited with `status`, or is recycled (None)."""

    replaced: Child
    status: int | None
    child: Child


def _restart_delay(doublings: int) -> float:
    # Capped before the power: after a thousand crashes it would be too large for a float.
    return min(LONGEST_RESTART_SECONDS, FIRST_RESTART_SECONDS * 2.0 ** min(doublings, 16))
