"""The queues that a worker serves: patterns, expanded to the names of queues."""

from __future__ import annotations

import pytest

from steady_queue.store.queue_selection import QueueSelection


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["b", "a"], ["b", "a"]),
        (["mail_*"], ["mail_a", "mail_b"]),
        (["mail_b", "mail_*"], ["mail_b", "mail_a"]),
        (["mail_*", "mail_b"], ["mail_a", "mail_b"]),
        (["missing"], ["missing"]),
        (["*_a", "m*l"], []),
        (["mail_*", "other", "mail_a"], ["mail_a", "mail_b", "other"]),
        ([], []),
    ],
)
def test_patterns_stand_for_names_in_their_order(patterns: list[str], expected: list[str]) -> None:
    assert QueueSelection(patterns).expand(["mail_a", "mail_b", "other"]) == expected


def test_excluded_queues_are_left_out() -> None:
    selection = QueueSelection(["other", "mail_*"], ["mail_b", "oth*"])
    assert selection.expand(["mail_a", "mail_b", "other"]) == ["mail_a"]
