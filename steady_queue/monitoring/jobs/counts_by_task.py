"""How many tasks of a list are calls of each function, as far as its first rows go."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.monitoring.counts import CappedCount
from steady_queue.monitoring.jobs.matching import condition_of

if TYPE_CHECKING:
    from steady_queue.monitoring.jobs.listings import Listing
    from steady_queue.monitoring.jobs.search import JobSearch

#: Rows of a list whose jobs are looked up: with more, a page would take too long.
LOOKED_UP = 500


class TaskCount(NamedTuple):
    """A path, and how many tasks of the list have it."""

    task_path: str
    size: CappedCount


class CountsByTask(NamedTuple):
    """The paths, the most frequent one first."""

    tasks: tuple[TaskCount, ...]
    #: Whether the list has more rows than were looked up: then there may be more tasks of each path, and more paths.
    is_capped: bool


def count_tasks(search: JobSearch, listing: Listing, limit: int = LOOKED_UP) -> CountsByTask | None:
    """Count the tasks of a list by their paths, by one query for each of its one or two sections.

    None for the list of all states, and for a text in the arguments, which would have to be read.
    """
    if search.state is None or search.text:
        return None
    found: Counter[str] = Counter()
    left = limit
    for section in listing.sections:
        rows = section.read_paths(left + 1, condition_of(listing, section))
        for key, meets, path in rows[:left]:
            if meets and path is not None and (section.is_match is None or section.is_match(key)):
                found[path] += 1
        left -= len(rows)
        if left < 0:
            break
    tasks = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return CountsByTask(tuple(TaskCount(path, CappedCount(number, left < 0)) for path, number in tasks), left < 0)
