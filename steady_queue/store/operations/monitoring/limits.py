"""Limits: the concurrency keys that are in use, with the jobs that hold their slots and those that wait for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: The next keys of slots after a bound one, in order and at most a bound number: one index lookup for each.
_SLOT_KEYS = (
    "WITH RECURSIVE found(name, place) AS"
    " (SELECT min(concurrency_key), 1 FROM steady_queue_semaphore WHERE concurrency_key > ? UNION ALL"
    " SELECT (SELECT min(s.concurrency_key) FROM steady_queue_semaphore s"
    " WHERE s.concurrency_key > found.name), found.place + 1"
    " FROM found WHERE found.name IS NOT NULL AND found.place < ?) SELECT name FROM found WHERE name IS NOT NULL"
)
_COLUMNS = 3


class LimitUse(NamedTuple):
    """A key, the limit that one of its jobs was stored with, and how many jobs hold a slot and wait for one."""

    key: str
    limit: int | None
    holders: int
    waiting: int


@operation(transaction=False)
def find_limit_keys(sql: Dialect, after: str, count: int) -> Flow[list[str]]:
    """The next keys that have taken slots or blocked jobs, in order."""
    held = yield sql.statement(_SLOT_KEYS, after, count, returns=".")
    blocked = yield sql.statement(sql.blocked_keys, after, count, returns=".")
    # Python sorts strings by code points, which is the order of their bytes.
    return sorted({str(row[0]) for row in (*held, *blocked)})[:count]


@operation(transaction=False)
def count_slots(sql: Dialect, keys: Sequence[str], most: int) -> Flow[list[LimitUse]]:
    """How these keys are used; jobs are counted up to `most` for each."""
    if not keys:
        return []
    sources = ("steady_queue_semaphore", sql.blocked_by_key)
    limits = [
        f"(SELECT j.concurrency_limit FROM steady_queue_job j JOIN (SELECT job_id FROM {source}"
        " WHERE concurrency_key = ? LIMIT 1) e ON e.job_id = j.id)"
        for source in sources
    ]
    counts = [
        f"(SELECT count(*) FROM (SELECT 1 FROM {source} WHERE concurrency_key = ? LIMIT {most:d}) t)"
        for source in sources
    ]
    columns = f"COALESCE({', '.join(limits)}), {', '.join(counts)}"
    values = [key for key in keys for _ in range(len(limits) + len(counts))]
    rows = yield sql.statement(
        f"SELECT {', '.join([columns] * len(keys))}", *values, returns="." * (_COLUMNS * len(keys))
    )
    numbers = list(rows[0])
    parts = [numbers[at : at + _COLUMNS] for at in range(0, len(numbers), _COLUMNS)]
    return [LimitUse(key, part[0], int(part[1]), int(part[2])) for key, part in zip(keys, parts, strict=True)]
