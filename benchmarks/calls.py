"""What is enqueued: calls of `tests.shop.tasks.anything` with small arguments, each a little different."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")
Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

PATH = "tests.shop.tasks.anything"
#: How many are enqueued at once by coroutines that run together.
TOGETHER = 100


def calls(jobs: int) -> list[Call]:
    """The arguments of so many calls."""
    return [((number, "hello"), {"x": [1, 2, 3]}) for number in range(jobs)]


def groups(given: Sequence[T], size: int = TOGETHER) -> Iterator[Sequence[T]]:
    """The same in pieces of a size."""
    for at in range(0, len(given), size):
        yield given[at : at + size]
