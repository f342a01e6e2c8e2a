"""How many tasks of a concurrency key ran at once, by the attempt log."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.storm.attempt_log import Attempt
    from tests.storm.job_records import Record

    #: An attempt, and when it no longer held its slot.
    Held = tuple[Record, Attempt, float]


class Peak(NamedTuple):
    """The moment at which most of a key ran at once."""

    key: str
    limit: int
    running: Sequence[Held]

    @property
    def violation(self) -> str | None:
        if len(self.running) <= self.limit:
            return None
        jobs = ", ".join(f"{record.id} in {attempt.pid}" for record, attempt, _ in self.running)
        return f"{len(self.running)} of the key {self.key} ran at once, {self.limit} may: {jobs}"


def peaks(held: Iterable[Held]) -> list[Peak]:
    """The peak of each key."""
    by_key: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        if one[0].key is not None:
            by_key[one[0].key].append(one)
    return [Peak(key, ones[0][0].limit, max(_moments(ones), key=len)) for key, ones in by_key.items()]


def _moments(ones: Sequence[Held]) -> Iterator[list[Held]]:
    """The attempts that ran whenever one more began, which is when most ran."""
    for _, attempt, _ in ones:
        at = attempt.began
        # An attempt that ends at the moment at which another begins has freed its slot for it.
        yield [other for other in ones if other[1].began <= at < other[2]]
