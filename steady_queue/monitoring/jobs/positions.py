"""Position: a row of a list, as the text of a cursor in an URL."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from steady_queue.monitoring.jobs.sections import compares_texts
from steady_queue.monitoring.times import parse_time

if TYPE_CHECKING:
    from steady_queue.monitoring.jobs.listings import Listing
    from steady_queue.monitoring.jobs.sections import Column, Key


class Position(NamedTuple):
    """The number of a section of a list, and the values of the section's columns in a row."""

    section: int
    key: Key


def encode_position(position: Position | None) -> str | None:
    """Return the cursor of a position."""
    if position is None:
        return None
    text = json.dumps([position.section, *position.key], default=_text, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_position(cursor: str | None, listing: Listing) -> Position | None:
    """Return the position of a cursor; None if it is not one of this list."""
    if not cursor:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        number, *values = json.loads(text)
        columns = listing.sections[number].columns if number >= 0 else ()
        key = tuple(_read(column, value) for column, value in zip(columns, values, strict=True))
        return Position(number, key) if key else None
    except (ValueError, TypeError, IndexError, AttributeError, OverflowError, RecursionError):
        return None


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _read(column: Column, value: Any) -> Any:
    if column.name in ("id", "job_id"):
        return UUID(value)
    if not column.is_time:
        if not isinstance(value, int) or abs(value) > 32768:
            raise ValueError("not a small number")
        return value
    moment = parse_time(value)
    if moment is None:
        raise ValueError("not a time")
    return value if compares_texts() else moment
