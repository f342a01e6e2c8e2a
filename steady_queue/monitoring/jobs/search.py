"""JobSearch: which tasks a list shows, and its form in the query of an URL."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from steady_queue.actions.filters import parse_before
from steady_queue.monitoring.states import JobState
from steady_queue.store.names import KEY_LENGTH, NAME_LENGTH, explain_unstorable

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Characters of a text that is searched for in arguments.
TEXT_LENGTH = 500
_ID = re.compile(r"[0-9a-f]{1,32}")
_TIMES = ("since", "before")
_LENGTHS = {
    "queue": NAME_LENGTH,
    "task": NAME_LENGTH,
    "error": NAME_LENGTH,
    "key": KEY_LENGTH,
    "worker": NAME_LENGTH,
    "text": TEXT_LENGTH,
}


class InvalidSearch(ValueError):
    """A filter has a value that is not possible; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSearch:
    """One list of tasks and its filters. An empty filter matches every task.

    Without a state, the tasks of all states are meant, the newest first.
    """

    state: JobState | None = None
    queue: str = ""
    #: The path of the task; without a dot, the name of its function.
    task: str = ""
    #: The time that the list is sorted by: see `JobRow.at`. A list that is sorted by ids means the time of enqueueing.
    since: datetime | None = None
    before: datetime | None = None
    #: The path of the exception class; without a dot, its name.
    error: str = ""
    #: The concurrency key.
    key: str = ""
    #: The name or the id of a process that runs the task, or has run it.
    worker: str = ""
    #: Text in the arguments as they are shown: values that are redacted do not match.
    text: str = ""
    #: The first hexadecimal digits of the id, or all of them.
    id: str = ""

    @classmethod
    def from_query(cls, query: Mapping[str, Any]) -> JobSearch:
        """Return the search of these parameters; raises InvalidSearch. Other parameters are ignored.

        A time is a date, a time, or a time span before now such as `12h`.
        """
        values: dict[str, Any] = {}
        for field in fields(cls):
            if given := str(query.get(field.name) or "").strip():
                values[field.name] = _parse(field.name, given)
        return cls(**values)

    def to_query(self) -> dict[str, str]:
        """Return the parameters of this search: those that are not empty."""
        return {name: _format(value) for name, value in self.filters().items()}

    def filters(self) -> dict[str, Any]:
        """Return the values that are not empty, by their names."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value not in ("", None)}

    def without(self, name: str) -> JobSearch:
        """Return the search without one of its filters."""
        empty: Any = None if name in ("state", *_TIMES) else ""
        return replace(self, **{name: empty})

    def id_range(self) -> tuple[UUID, UUID] | None:
        """Return the first and the last id that begin with the digits of `id`; None without such a filter."""
        if not self.id:
            return None
        # Job ids are of version 7: MariaDB sorts other versions differently.
        first, last = "00000000000070008000000000000000", "ffffffffffff7fffbfffffffffffffff"
        return UUID(self.id + first[len(self.id) :]), UUID(self.id + last[len(self.id) :])


def _parse(name: str, given: str) -> Any:
    if name == "state":
        try:
            return JobState(given)
        except ValueError:
            raise InvalidSearch(f"there is no state {given!r:.50}") from None
    if name in _TIMES:
        return _parse_time(name, given)
    if name == "id":
        digits = given.lower().replace("-", "")
        if not _ID.fullmatch(digits):
            raise InvalidSearch(f"an id has at most 32 hexadecimal digits, unlike {given!r:.50}")
        return digits
    if problem := explain_unstorable(given, _LENGTHS[name]):
        raise InvalidSearch(f"the filter {name} {problem}")
    return given


def _parse_time(name: str, given: str) -> datetime:
    try:
        parsed = parse_before(given)
        return datetime.now(UTC) - parsed if isinstance(parsed, timedelta) else parsed
    except (ValueError, OverflowError):
        message = f"{name} is a date (2026-01-31), a time or a span such as 7d or 12h, unlike {given!r:.50}"
        raise InvalidSearch(message) from None


def _format(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
