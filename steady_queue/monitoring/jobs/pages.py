"""JobPage: one page of a list of tasks, found by its position in an index: a later page costs no more than the first.

A filter that no index has is checked for windows of rows, in the order of the list. After so many rows the page ends,
full or not, and says how many rows it has searched; the next page continues there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.monitoring.counts import COUNT_LIMIT, CappedCount
from steady_queue.monitoring.jobs.listings import build_listing
from steady_queue.monitoring.jobs.matching import condition_of, find_matching
from steady_queue.monitoring.jobs.positions import Position, decode_position, encode_position
from steady_queue.monitoring.jobs.rows import JobRow, load_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from steady_queue.monitoring.jobs.listings import Listing
    from steady_queue.monitoring.jobs.search import JobSearch
    from steady_queue.monitoring.jobs.sections import Key

PAGE_ROWS, BATCH_ROWS = 50, 500
#: How many rows are searched at first, for one page at most, and for a count or a batch of ids at most. If one of ten
#: tasks matches, as those of one of ten queues do, the first rows fill a page: to read on takes two queries more.
FIRST_ROWS, PAGE_WINDOW_ROWS, WINDOW_ROWS = 600, 2_000, 10_000


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some rows of a list, and how to read those after and before them."""

    rows: tuple[JobRow, ...]
    #: Pass it as `after`; None at the end of the list.
    next_cursor: str | None = None
    #: Pass it as `before`; None at the beginning of the list.
    previous_cursor: str | None = None
    #: How many rows were read to find these.
    searched: int = 0
    #: False if the search stopped before the page was full: `next_cursor` continues it.
    is_complete: bool = True


class IdBatch(NamedTuple):
    """Ids of tasks that match a search, and the cursor of the next ones; None at the end. A batch may be empty."""

    ids: tuple[UUID, ...]
    next_cursor: str | None
    searched: int


class Matches(NamedTuple):
    """The first tasks that match a search, and how many match; if that is capped, there are more than the ids."""

    ids: tuple[UUID, ...]
    total: CappedCount


class _Scan(NamedTuple):
    """Rows that match, the last row that was read, and whether that was the last of the list."""

    found: list[Position]
    ids: list[UUID]
    searched: int
    last: Position | None
    is_at_end: bool


def find_page(
    search: JobSearch,
    *,
    after: str | None = None,
    before: str | None = None,
    size: int = PAGE_ROWS,
    listing: Listing | None = None,
) -> JobPage:
    """Return the first page, or the page after or before a cursor. A cursor of another list counts as none.

    `listing` is that of the search, if it is built already: that may need a query.
    """
    listing = listing or build_listing(search)
    start = decode_position(before or after, listing)
    backwards = bool(before) and start is not None
    scan = _scan(search, listing, start, size + 1, PAGE_WINDOW_ROWS, backwards=backwards)
    is_full = len(scan.found) > size
    found, ids = scan.found[:size], scan.ids[:size]
    #: Where the search continues in its direction.
    further = found[-1] if is_full else None if scan.is_at_end else scan.last
    # The way back: from the first row, or, if there is none, from where this page began.
    back = (found[0] if found else start) if start is not None else None
    if backwards:
        found, ids, further, back = found[::-1], ids[::-1], back, further
    return JobPage(
        rows=load_rows(ids),
        next_cursor=encode_position(further),
        previous_cursor=encode_position(back),
        searched=scan.searched,
        is_complete=is_full or scan.is_at_end,
    )


def find_ids(
    search: JobSearch, *, after: str | None = None, as_of: datetime | None = None, size: int = BATCH_ROWS
) -> IdBatch:
    """Return the ids of the next tasks that match. `as_of`: without those that have entered the list since then."""
    listing = build_listing(search, as_of)
    scan = _scan(search, listing, decode_position(after, listing), size, WINDOW_ROWS)
    return IdBatch(tuple(scan.ids), None if scan.is_at_end else encode_position(scan.last), scan.searched)


def iterate_ids(search: JobSearch, *, as_of: datetime | None = None, size: int = BATCH_ROWS) -> Iterator[list[UUID]]:
    """Yield the ids of all tasks that match, in batches. Tasks that enter the list from now on are left out.

    The caller may move the tasks of a batch to another state before it continues.
    """
    as_of = as_of or datetime.now(UTC)
    cursor: str | None = None
    while True:
        batch = find_ids(search, after=cursor, as_of=as_of, size=size)
        if batch.ids:
            yield list(batch.ids)
        cursor = batch.next_cursor
        if cursor is None:
            return


def find_matches(search: JobSearch, *, as_of: datetime | None = None, limit: int = COUNT_LIMIT) -> Matches:
    """Return the tasks that match, as far as `limit` matches and one window of rows go."""
    found = find_ids(search, as_of=as_of, size=limit + 1)
    is_capped = len(found.ids) > limit or found.next_cursor is not None
    return Matches(found.ids[:limit], CappedCount(len(found.ids[:limit]), is_capped))


def _scan(
    search: JobSearch, listing: Listing, start: Position | None, wanted: int, window: int, *, backwards: bool = False
) -> _Scan:
    """Read the list from a position on, until there are enough matches or a window has been searched."""
    found: list[Position] = []
    ids: list[UUID] = []
    searched = 0
    last = start
    numbers = range(len(listing.sections))
    for number in reversed(numbers) if backwards else numbers:
        section = listing.sections[number]
        if start is not None and (number > start.section if backwards else number < start.section):
            continue
        after: Key | None = start.key if start is not None and start.section == number else None
        is_read = False
        while not is_read:
            limit = min(max(FIRST_ROWS, wanted) if not searched else window, window - searched)
            limit = limit if listing.is_filtered else wanted - len(ids)
            if limit <= 0:
                return _Scan(found, ids, searched, last, False)
            rows = section.read(after, limit, backwards=backwards, condition=condition_of(listing, section))
            is_read = len(rows) < limit
            matching = find_matching(search, listing, section, rows)
            width = len(section.columns)
            for place, (key, meets) in enumerate(rows, 1):
                if not meets:
                    continue
                id_ = section.id_of(key)
                if matching is None or id_ in matching:
                    found.append(Position(number, key[:width]))
                    ids.append(id_)
                    if len(ids) == wanted:
                        return _Scan(found, ids, searched + place, found[-1], False)
            if rows:
                searched += len(rows)
                after = rows[-1][0][:width]
                last = Position(number, after)
    return _Scan(found, ids, searched, last, True)
