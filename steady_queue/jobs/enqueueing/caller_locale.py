"""The language and the time zone of the code that enqueued a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone, translation

if TYPE_CHECKING:
    from collections.abc import Mapping


def activate(headers: Mapping[str, Any]) -> None:
    """Activate what the headers of a job have of them, in this context."""
    if "locale" in headers:
        if headers["locale"] is None:
            translation.deactivate_all()
        else:
            translation.activate(headers["locale"])
    if "timezone" in headers:
        zone = headers["timezone"]
        timezone.activate(timezone.get_fixed_timezone(zone) if isinstance(zone, int) else zone)
