"""Queue patterns of a worker, expanded to the names of queues."""

from __future__ import annotations

import pytest

from steady_queue.aio.worker.queues import expand


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
    assert expand(patterns, ["mail_a", "mail_b", "other"]) == expected
