"""Checks of the values of options. Each check yields a problem, which begins with the name of the option."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from steady_queue.store.names import LONGEST_TIMEDELTA, NAME_LENGTH, explain_unstorable

if TYPE_CHECKING:
    from collections.abc import Iterator


def check_queues(what: str, names: object) -> Iterator[str]:
    if not isinstance(names, (list, tuple)):
        yield f"{what} must be a list of queue names, not {names!r}"
        return
    for name in names:
        if not isinstance(name, str) or not name.strip() or explain_unstorable(name, NAME_LENGTH):
            yield f"{what} contains an invalid queue name: {name!r}"


def check_count(what: str, value: object, least: int, most: int | None = None) -> Iterator[str]:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        yield f"{what} must be an integer of at least {least}, not {value!r}"
    elif most is not None and value > most:
        yield f"{what} must be at most {most:,}, not {value:,}"


def check_bool(what: str, value: object) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{what} must be True or False, not {value!r}"


def check_interval(what: str, value: object) -> Iterator[str]:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        yield f"{what} must be a timedelta greater than zero, not {value!r}"
    elif value > LONGEST_TIMEDELTA:
        yield f"{what} must be a timedelta of at most {LONGEST_TIMEDELTA.days:,} days, not {value!r}"


def check_duration(what: str, value: object, otherwise: str = "") -> Iterator[str]:
    if not isinstance(value, timedelta) or value < timedelta(0):
        yield f"{what} must be a timedelta of at least zero{otherwise}, not {value!r}"
    elif value > LONGEST_TIMEDELTA:
        yield f"{what} must be a timedelta of at most {LONGEST_TIMEDELTA.days:,} days{otherwise}, not {value!r}"


def find_non_string_keys(value: object) -> Iterator[object]:
    """The keys of nested dictionaries that JSON would convert to strings."""
    if isinstance(value, Mapping):
        yield from (key for key in value if not isinstance(key, str))
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ():
        yield from find_non_string_keys(part)
