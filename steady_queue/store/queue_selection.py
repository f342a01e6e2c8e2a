"""Queue selection: which queues a worker serves, by names and prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class QueueSelection(NamedTuple):
    """Patterns in order (a name, a `prefix*`, or `*` for all queues), and the patterns of queues that are left out."""

    patterns: Sequence[str]
    excluded: Sequence[str] = ()

    @classmethod
    def of(cls, patterns: Iterable[str], excluded: Iterable[str] = ()) -> QueueSelection:
        """The selection of these patterns, without the whitespace around them."""
        return cls(tuple(one.strip() for one in patterns), tuple(one.strip() for one in excluded))

    @property
    def takes_all(self) -> bool:
        return "*" in self.patterns

    @property
    def is_empty(self) -> bool:
        """Whether every pattern lies within an excluded one, so that no queue can be left."""
        return all(any(covers(excluded, pattern) for excluded in self.excluded) for pattern in self.patterns)

    def excludes(self, name: str) -> bool:
        return any(matches(pattern, name) for pattern in self.excluded)

    def serves(self, name: str) -> bool:
        return any(matches(pattern, name) for pattern in self.patterns) and not self.excludes(name)

    def expand(self, names: Sequence[str]) -> list[str]:
        """The plain names of the patterns, and those of `names` that the prefixes match, in the order of the patterns.

        A plain name is among them even if `names` does not have it: its queue may get tasks later.
        """
        found: dict[str, None] = {}
        for pattern in self.patterns:
            matched = [name for name in names if matches(pattern, name)] if "*" in pattern else [pattern]
            found.update(dict.fromkeys(matched))
        return [name for name in found if not self.excludes(name)] if self.excluded else list(found)

    def __str__(self) -> str:
        without = f" except {', '.join(self.excluded)}" if self.excluded else ""
        return f"{', '.join(self.patterns)}{without}"


def matches(pattern: str, name: str) -> bool:
    """Whether the name of a queue fits the pattern. An asterisk that is not the last character fits nothing."""
    if "*" not in pattern:
        return pattern == name
    return pattern.index("*") == len(pattern) - 1 and name.startswith(pattern[:-1])


def covers(pattern: str, other: str) -> bool:
    """Whether every queue that fits the other pattern fits this one."""
    if other.endswith("*"):
        return pattern.endswith("*") and matches(pattern, other[:-1])
    return matches(pattern, other)
