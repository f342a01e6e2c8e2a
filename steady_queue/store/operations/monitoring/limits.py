"""Limits: the concurrency keys that are in use, with the jobs that hold their slots and those that wait for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.operations.monitoring.each_name import read_each_name
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
    sources = (("steady_queue_semaphore", "slot"), (sql.blocked_by_key, "priority DESC, job_id"))
    limits = [
        "(SELECT (SELECT j.concurrency_limit FROM steady_queue_job j WHERE j.id = e.job_id)"
        f" FROM (SELECT job_id FROM {source} WHERE concurrency_key = {{name}} ORDER BY {order} LIMIT 1) e)"
        for source, order in sources
    ]
    counts = [
        f"(SELECT count(*) FROM (SELECT 1 FROM {source} WHERE concurrency_key = {{name}}"
        f" ORDER BY {order} LIMIT {most:d}) t)"
        for source, order in sources
    ]
    rows = yield from read_each_name(sql, keys, [f"COALESCE({', '.join(limits)})", *counts])
    return [LimitUse(key, row[0], int(row[1]), int(row[2])) for key, row in zip(keys, rows, strict=True)]
