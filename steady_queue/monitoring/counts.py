"""CappedCount: a count that ends at a limit, so that a large table costs no more than a small one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: No table is counted further than this.
COUNT_LIMIT = 10_000


class CappedCount(NamedTuple):
    """How many rows there are; if `is_capped`, there are more."""

    number: int
    is_capped: bool = False

    @classmethod
    def of(cls, found: int, limit: int = COUNT_LIMIT) -> CappedCount:
        """The count of rows that were counted up to `limit` + 1."""
        return cls(min(found, limit), found > limit)

    def counted(self, noun: str, plural: str | None = None) -> str:
        """`1 task`, `12 tasks`, `10,000+ tasks`; with `plural` also of other words, such as "task waits"."""
        return f"{self} {noun if self == (1, False) else plural or f'{noun}s'}"

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.is_capped else f"{self.number:,}"


def count_capped(rows: QuerySet[Any], limit: int = COUNT_LIMIT) -> CappedCount:
    """Count the rows, in one query that reads at most `limit` + 1 of them."""
    return CappedCount.of(rows.order_by()[: limit + 1].count(), limit)
