"""Confirmed: the tasks that somebody was asked about. Those that match later are left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.monitoring.jobs.pages import BATCH_ROWS, IdBatch, Matches, find_ids, find_matches, iterate_ids
from steady_queue.monitoring.jobs.search import JobSearch
from steady_queue.monitoring.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID


class Confirmed(NamedTuple):
    """The tasks that matched a search when the question was asked."""

    search: JobSearch
    as_of: datetime
    #: No other tasks are meant; None if there were too many to name them.
    ids: frozenset[UUID] | None = None

    def find_next(self, cursor: str | None, size: int = BATCH_ROWS) -> IdBatch:
        """Return those of the next tasks that still match. A batch may be empty before the end."""
        found = find_ids(self.search, after=cursor, as_of=self.as_of, size=size)
        return found._replace(ids=tuple(self._keep(found.ids)))

    def iterate(self) -> Iterator[list[UUID]]:
        """Yield all that still match, in batches. The caller may change the tasks of a batch before it continues."""
        for found in iterate_ids(self.search, as_of=self.as_of):
            yield self._keep(found)

    def _keep(self, ids: tuple[UUID, ...] | list[UUID]) -> list[UUID]:
        return [id_ for id_ in ids if self.ids is None or id_ in self.ids]


def find_confirmed(search: JobSearch) -> tuple[Confirmed, Matches]:
    """Return the tasks that match now, for a question about them, and how many they are."""
    as_of = datetime.now(UTC)
    found = find_matches(search, as_of=as_of)
    return Confirmed(search, as_of, None if found.total.is_capped else frozenset(found.ids)), found


def ready_in(queue: str) -> JobSearch:
    """Return the search for the ready tasks of a queue: those that are deleted when it is cleared."""
    if not queue:
        raise ValueError("the name of the queue is empty")  # as a filter it would match every queue
    return JobSearch(state=JobState.READY, queue=queue)
