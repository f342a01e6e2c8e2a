"""Each state has one level, which pages and the terminal show by its colour."""

from __future__ import annotations

from typing import get_args

import pytest

from steady_queue.management.tables import COLOURS
from steady_queue.monitoring.jobs.timeline import Ending
from steady_queue.monitoring.states import JobState, Level, level_of

LEVELS = {
    "error": {"failed", "exhausted", "lost", "dead", "stuck", "not served"},
    "warning": {"late", "retrying", "cancelled", "expired", "interrupted", "paused"},
    "info": {"running"},
    "ok": {"finished", "alive", "active"},
    "quiet": {"ready", "scheduled", "blocked"},
}


@pytest.mark.parametrize(("level", "states"), LEVELS.items())
def test_a_state_has_one_level(level: Level, states: set[str]) -> None:
    assert {level_of(state) for state in states} == {level}
    assert level in COLOURS


def test_all_states_of_tasks_and_endings_of_attempts_are_tested_here() -> None:
    known = set().union(*LEVELS.values())

    assert {*map(str, JobState), *get_args(Ending)} <= known
    assert get_args(Level) == tuple(LEVELS)
