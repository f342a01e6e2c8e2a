"""The schedule of a recurring task in words."""

from __future__ import annotations

import re
from functools import lru_cache

from steady_queue.events.wording import counted
from steady_queue.recurring.schedule import ALIASES, EVERY_PREFIX, parse

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


@lru_cache(maxsize=4096)
def describe_schedule(schedule: str) -> str:
    """Return `At 02:30, only on Monday`; the schedule itself if it cannot be put into words."""
    try:
        parse(schedule)
        if schedule.startswith(EVERY_PREFIX):
            return _describe_interval(schedule.removeprefix(EVERY_PREFIX).strip())
        return _describe_cron(ALIASES.get(schedule.strip().lower(), schedule))
    except Exception:  # a stored schedule may be any text
        return schedule


def _describe_interval(number: str) -> str:
    seconds = float(number)
    if seconds != int(seconds):
        return f"Every {number} seconds"
    left = int(seconds)
    parts = []
    for unit, size in _UNITS:
        if count := left // size:
            parts.append(counted(count, unit))
        left %= size
    text = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"Every {text.removeprefix('1 ') if len(parts) == 1 else text}"


def _describe_cron(expression: str) -> str:
    from cron_descriptor import Options, get_description  # only people need words

    fields = [field.upper() for field in expression.split()]
    fields[0], fields[1] = _list_uneven(fields[0], 60), _list_uneven(fields[1], 24)
    # croniter expects the seconds last, cron_descriptor first.
    seconds = [_list_uneven(field, 60) for field in fields[5:]]
    options = Options(locale_code="en_US", use_24hour_time_format=True)
    return str(get_description(" ".join(seconds + fields[:5]), options))


def _list_uneven(field: str, count: int) -> str:
    """Return the numbers of a step that does not divide the hour or the day: `*/5` hours are not "every 5 hours"."""
    step = re.fullmatch(r"(?:\*|0)/(\d+)", field)
    if step is None or count % int(step[1]) == 0:
        return field
    return ",".join(str(number) for number in range(0, count, int(step[1])))
