"""Times of requests and of stored texts, which may be out of the range of other time zones or of a database."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils import timezone


def parse_time(text: object) -> datetime | None:
    """Return a time of a request in UTC; None if it is not one. Without a zone it is in UTC."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_past_time(text: object) -> datetime:
    """Return a time of a request that is not later than now; now, if it is not one."""
    return past_time(parse_time(text))


def past_time(moment: datetime | None) -> datetime:
    """Return a time that is not later than now; now, if there is none."""
    now = datetime.now(UTC)
    return min(moment or now, now)


def show_local(moment: datetime) -> str:
    """Return a time in the current time zone; one that the zone cannot express is shown as it is."""
    try:
        local = moment.astimezone(timezone.get_current_timezone()) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        local = moment
    return local.replace(microsecond=0, tzinfo=None).isoformat(" ")
