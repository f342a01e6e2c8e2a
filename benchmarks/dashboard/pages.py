"""The pages that are measured: what the admin has registered, and each list of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse

from steady_queue.monitoring.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The names of pages and JSON views without parameters.
_VIEWS = (
    "overview_changelist",
    "overview_json",
    "queue_changelist",
    "queue_json",
    "process_changelist",
    "recurringtask_changelist",
    "limit_changelist",
)
#: Filters of lists: the first ones are part of an index, the others are not.
_FILTERS: tuple[dict[str, str], ...] = (
    {"state": "ready", "queue": "queue 03"},
    {"state": "finished", "since": "1h"},
    {"state": "finished", "queue": "queue 03"},
    {"state": "finished", "task": "shop.tasks.task_3"},
    {"state": "failed", "error": "ValueError"},
    {"state": "failed", "error": "NoSuchError"},
    {"state": "finished", "text": "no such text"},
    {"state": "blocked", "key": "customer 0003"},
    {"state": "running", "worker": "host:1"},
)


class Page(NamedTuple):
    """A page: what it is called in the report, and its URL."""

    name: str
    url: str


def find_pages() -> Iterator[Page]:
    """The pages and lists that the admin has."""
    for view in _VIEWS:
        if url := _reverse(view):
            yield Page(view.removesuffix("_changelist").replace("_", " "), url)
    if jobs := _reverse("job_changelist"):
        yield Page("tasks", jobs)
        for query in (*({"state": str(state)} for state in JobState), *_FILTERS):
            yield Page(
                f"tasks: {', '.join(f'{name}={value}' for name, value in query.items())}", f"{jobs}?{urlencode(query)}"
            )


def _reverse(view: str) -> str:
    try:
        return reverse(f"admin:steady_queue_{view}")
    except NoReverseMatch:  # this version has no such page
        return ""
