"""Durations in words, as short as a sentence needs them."""

from __future__ import annotations

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def in_words(seconds: float) -> str:
    """Return a duration in its largest unit: 95 seconds are "1 minute", 0.4 seconds "0.4 seconds"."""
    for size, unit in _UNITS:
        number = int(seconds // size)
        if number >= 1:
            return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"
    return f"{max(seconds, 0.0):.1f} seconds"
