"""Disabling: switches off an entry that can never be enqueued, and stores the reason in its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.store.operations.recurring import entries as recurring

if TYPE_CHECKING:
    from steady_queue.aio.scheduler.timetable import Timetable
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.recurring.entries import Entry

#: How many characters of an error are stored.
MAX_REASON_CHARACTERS = 2000


class EntryDisabler:
    """Disables entries of one timetable."""

    def __init__(self, *, timetable: Timetable, driver: AsyncDriver, events: Events) -> None:
        self._timetable = timetable
        self._driver = driver
        self._events = events

    async def disable(self, entry: Entry, error: Exception) -> None:
        """Remove the entry from the timetable and disable its row."""
        key = entry.new.task_key
        reason = f"{type(error).__name__}: {error}"[:MAX_REASON_CHARACTERS].replace("\x00", "")
        reason = reason.encode("utf-8", "backslashreplace").decode()
        self._timetable.drop(key)
        # Only as it was read: an entry that was corrected meanwhile stays enabled.
        if await self._driver.run(recurring.disable_broken(self._driver.sql, key, entry.updated_at, reason)):
            self._events.emit(events.RecurringDisabled(key=key, reason=reason))
