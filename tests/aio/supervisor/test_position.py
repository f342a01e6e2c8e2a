"""Positions of a supervisor: when a child that crashed is replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from steady_queue.aio.supervisor.child_position import Position
from steady_queue.configuration import Options


def crash(position: Position, lived_seconds: float, *, was_requested: bool = False) -> float:
    """Let a child of the position exit; return the delay of its replacement."""
    child: Any = SimpleNamespace(started_at=100.0, state={})
    position.child = child
    exited: Any = SimpleNamespace(child=child, status=1, was_requested=was_requested)
    return position.remove(exited, 100.0 + lived_seconds)


def test_the_delay_doubles_while_children_crash_early() -> None:
    position = Position(Options())
    assert [crash(position, 1.0) for _ in range(9)] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@pytest.mark.parametrize(("lived_seconds", "was_requested"), [(10.0, False), (1.0, True)])
def test_a_child_that_worked_for_long_or_was_asked_to_stop_is_replaced_at_once(
    lived_seconds: float, was_requested: bool
) -> None:
    position = Position(Options())
    for _ in range(5):
        crash(position, 1.0)
    assert crash(position, lived_seconds, was_requested=was_requested) == 0.0
    assert position.early_crashes == 0


def test_the_delay_stays_the_longest_after_thousands_of_crashes() -> None:
    position = Position(Options(), early_crashes=5000)
    assert crash(position, 1.0) == 30.0
