"""How many tasks of a concurrency key ran at once, by the ledger."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.storm.ledger import Attempt
    from tests.storm.records import Record

    #: An attempt, and when it no longer held its slot.
    Held = tuple[Record, Attempt, float]


def exceeded(held: Iterable[Held]) -> Iterator[str]:
    """The keys of which more ran at once than their limit, each with the jobs of that moment."""
    by_key: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        if one[0].key is not None:
            by_key[one[0].key].append(one)
    for key, ones in by_key.items():
        limit = ones[0][0].limit
        for _, attempt, _ in ones:
            at = attempt.began
            # Who ends at the very moment at which another begins has made room for it.
            running = [other for other in ones if other[1].began <= at < other[2]]
            if len(running) > limit:
                jobs = ", ".join(f"{record.id} in {other.pid}" for record, other, _ in running)
                yield f"{len(running)} of the key {key} ran at once, {limit} may: {jobs}"
                break
