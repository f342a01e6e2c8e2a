"""The concurrency limits that are in use: who holds their slots, and how many tasks wait for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steady_queue.db.aliases import queue_alias
from steady_queue.db.transactions import run_one
from steady_queue.models import Semaphore
from steady_queue.monitoring.counts import COUNT_LIMIT, CappedCount
from steady_queue.store.operations.monitoring.limits import count_slots, find_limit_keys

if TYPE_CHECKING:
    from uuid import UUID

#: Keys of one page.
PAGE_SIZE = 50
#: Tasks of a key that are named.
NAMED_HOLDERS = 5
#: Tasks that are counted on one page, which its keys share.
_COUNTED_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A concurrency key. `limit` is the one that its tasks were enqueued with."""

    key: str
    limit: int | None
    holders: CappedCount
    waiting: CappedCount
    #: The first tasks that hold a slot.
    holder_ids: list[UUID] = field(default_factory=list)


def read_limits(after: str = "", size: int = PAGE_SIZE) -> list[LimitRow]:
    """The next keys behind `after`, in order: an empty page is behind the last one."""
    keys = run_one(lambda sql: find_limit_keys(sql, after, size))
    return _read_rows(keys)


def read_limit(key: str) -> LimitRow | None:
    """One key; None if no task holds a slot or waits for one."""
    row = _read_rows([key])[0]
    return row if row.holders.number or row.waiting.number else None


def _read_rows(keys: list[str]) -> list[LimitRow]:
    limit = min(COUNT_LIMIT, _COUNTED_ROWS // max(1, len(keys)))
    uses = run_one(lambda sql: count_slots(sql, keys, limit + 1))
    holders: dict[str, list[UUID]] = {}
    slots = Semaphore.objects.using(queue_alias()).filter(concurrency_key__in=keys, slot__lte=NAMED_HOLDERS)
    for key, job_id in slots.order_by("concurrency_key", "slot").values_list("concurrency_key", "job_id"):
        holders.setdefault(key, []).append(job_id)
    return [
        LimitRow(
            use.key,
            use.limit,
            CappedCount.of(use.holders, limit),
            CappedCount.of(use.waiting, limit),
            holders.get(use.key, [])[:NAMED_HOLDERS],
        )
        for use in uses
    ]
