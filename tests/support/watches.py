"""What the watcher of this process knows about the jobs that are waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.db.watcher import watcher

if TYPE_CHECKING:
    from steady_queue.db.watch import Watch


def watches_of(database: str) -> list[Watch]:
    return watcher(database)._all()


def has_read_all(database: str) -> bool:
    """Whether there are watches, and the job of each has been read."""
    watches = watches_of(database)
    return bool(watches) and all(watch.seen is not None for watch in watches)


def is_failing(database: str) -> bool:
    """Whether the watcher could not read the database the last time."""
    return watcher(database)._failing_since is not None
