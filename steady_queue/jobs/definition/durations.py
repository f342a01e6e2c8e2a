"""Durations as users write them: a number of seconds, or a timedelta."""

from __future__ import annotations

import math
from datetime import timedelta


def read_seconds(value: object) -> float:
    """Return a number of seconds or a timedelta as seconds; NaN, which is in no range, for anything else."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # an integer with hundreds of digits
        return math.inf if value > 0 else -math.inf


def is_delay(seconds: float) -> bool:
    """Whether a task can wait for so long."""
    return 0 <= seconds < math.inf


def read_limit(value: float | timedelta | None) -> float | None:
    """Return a checked limit in seconds; None if there is none: `math.inf` overrides the default of the project."""
    seconds = math.inf if value is None else read_seconds(value)
    return None if seconds == math.inf else seconds
