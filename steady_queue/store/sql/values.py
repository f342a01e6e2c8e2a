"""Values as MySQL and SQLite return them, converted to the types that the flows expect."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from steady_queue.store.ids import uuid_of

if TYPE_CHECKING:
    from collections.abc import Callable


def _restore_uuid(value: str | UUID) -> UUID:
    return value if isinstance(value, UUID) else uuid_of(int(value.replace("-", ""), 16))


def _restore_time(value: str | datetime) -> datetime:
    if isinstance(value, str):
        return _parse_time(value)
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _restore_stored_time(value: Any) -> Any:
    """The time; a value that is none, because a person has edited the column, unchanged."""
    try:
        return _restore_time(value)
    except (ValueError, TypeError, AttributeError):
        return value


@lru_cache(maxsize=64)  # the rows of a batch have their times in common
def _parse_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


#: By the letter in `Statement.returns`; the letter `.` has none.
RESTORE: dict[str, Callable[[Any], Any]] = {
    "u": _restore_uuid,
    "t": _restore_time,
    "m": _restore_stored_time,
    "i": int,
}
