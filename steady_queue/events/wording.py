"""How counts, durations and rates are written in log lines and on a terminal."""

from __future__ import annotations


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
