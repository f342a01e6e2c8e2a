"""The filters of a list of tasks: as chips that can be removed, and as fields of a form."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from steady_queue.monitoring.text import show_line
from steady_queue.monitoring.times import show_local

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steady_queue.monitoring.jobs.search import JobSearch

#: The filters by their names in the query, in the order of the form: label, and an example of a value.
FIELDS: Mapping[str, tuple[str, str]] = {
    "id": ("Id", "the first digits, or all"),
    "queue": ("Queue", "default"),
    "task": ("Task", "shop.tasks.send_mail, or send_mail"),
    "since": ("Since", "2026-01-31, 2026-01-31 12:00 or 12h"),
    "before": ("Before", "2026-01-31, 2026-01-31 12:00 or 12h"),
    "error": ("Error class", "ConnectionError"),
    "key": ("Concurrency key", ""),
    "worker": ("Process", "its name or id"),
    "text": ("Text in arguments", ""),
}


class Chip(NamedTuple):
    """A filter that is set, and the query of the list without it."""

    label: str
    text: str
    query_without: str


class Field(NamedTuple):
    """A field of the form."""

    name: str
    label: str
    example: str
    value: str


def describe_filters(search: JobSearch) -> list[Chip]:
    """Return the filters that are set, except the state."""
    filters = search.filters()
    return [
        Chip(label, _text(filters[name]), urlencode(search.without(name).to_query()))
        for name, (label, _) in FIELDS.items()
        if name in filters
    ]


def describe_search(search: JobSearch) -> str:
    """Return a search in words, on one line."""
    state = search.state.value if search.state else "all states"
    return ", ".join([state, *(f"{chip.label.lower()} {chip.text}" for chip in describe_filters(search))])


def build_fields(given: Mapping[str, str]) -> list[Field]:
    """Return the fields of the form with the values of a query, whether they are right or not."""
    return [
        Field(name, label, example, show_line(given.get(name, ""), 1000)) for name, (label, example) in FIELDS.items()
    ]


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return show_local(value)
    return show_line(value, 60)
