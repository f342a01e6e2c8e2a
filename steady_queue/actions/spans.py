"""Moments as people type them: a date, a time, or a span of time before now such as `7d` or `12h`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from django.utils import timezone

_SPAN = re.compile(r"(\d+)\s*([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def before(text: str) -> datetime | timedelta:
    """The moment, or how long ago; a date is its midnight. Without a zone, both are the project's."""
    given = text.strip()
    try:
        if found := _SPAN.fullmatch(given):
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
        if len(given) == len("2026-01-31"):
            moment = datetime.combine(date.fromisoformat(given), time())
        else:
            moment = datetime.fromisoformat(given)
        if timezone.is_naive(moment):
            moment = timezone.make_aware(moment, timezone.get_default_timezone())
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"must be a date (2026-01-31), a time or a span such as 7d or 12h, not {text!r}") from None
