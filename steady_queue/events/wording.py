"""How counts, durations, rates and suggestions are written in log lines, in messages and on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 task`, `1,000 tasks`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def duration_text(seconds: float) -> str:
    """`0.8 s`, `42 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for unit, larger, part, smaller in (("min", 60, 1, "s"), ("h", 3600, 60, "min"), ("d", 86400, 3600, "h")):
        if unit == "d" or whole < larger * (60 if unit == "min" else 24):
            return f"{whole // larger:,} {unit} {whole % larger // part} {smaller}"
    raise AssertionError("unreachable")


def rounded_rate(count: int, seconds: float) -> float:
    """Per second: whole numbers from 10 on, because more digits of a rate mean nothing."""
    rate = count / seconds if seconds > 0 else 0.0
    return float(round(rate)) if rate >= 10 else round(rate, 1)


def suggest(name: str, known: Iterable[str], *, most: int = 1) -> str | None:
    """`did you mean 'mail'?`, with at most so many of the known names; None if none of them is similar."""
    from difflib import get_close_matches  # only mistakes need it

    close = get_close_matches(name, list(known), n=most)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else None
