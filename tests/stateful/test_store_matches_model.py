"""The state machine on each database: a few fixed examples here; `make stateful` tries many random ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from steady_queue.store.sql import SQLite
from steady_queue.store.sql.dialect import Dialect
from tests.stateful.unique_rules import UniqueRules
from tests.support.databases.tables import empty_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.statement import Statement

#: Examples to try; by default a few that are always the same.
EXAMPLES = int(os.environ.get("STEADY_QUEUE_STATEFUL_EXAMPLES", "0"))
STEPS = int(os.environ.get("STEADY_QUEUE_STATEFUL_STEPS", "50"))
FEW = 10
#: Seconds that an example takes at most, on a busy machine, and in all for making a failing one small. Of the few that
#: are always the same none is made small: that can take longer than all other tests.
EACH, SHRINKING = 15, 600
PHASES = list(Phase) if EXAMPLES else [Phase.generate]
#: Mistakes of the store: a part of a statement, and its replacement.
MISTAKES = {
    "a paused queue is claimed from": (
        "NOT EXISTS (SELECT 1 FROM steady_queue_pause p WHERE p.queue_name = ?)",
        "'' <> ?",
    ),
    "a process that is dead claims": ("SELECT 1 FROM steady_queue_process o WHERE o.id = ?", "SELECT 1 WHERE ? > ''"),
    "the oldest is claimed first": ("ORDER BY r.priority DESC, r.job_id", "ORDER BY r.job_id"),
    "slots are kept": ("DELETE FROM steady_queue_semaphore WHERE", "DELETE FROM steady_queue_semaphore WHERE 0 AND"),
    "a job that has expired is started": ("AND attempts = 0 THEN 1", "AND attempts = 0 THEN 0"),
    "a unique key is taken from a job that waits": (
        "finished_at IS NULL THEN 0 ELSE 1 END, unique_key",
        "finished_at IS NULL THEN 1 END, unique_key",
    ),
    "what is not due is dispatched": ("WHERE scheduled_at <=", "WHERE scheduled_at > '' OR scheduled_at <="),
}


def run(database: str, **options: Any) -> None:
    class Machine(UniqueRules):
        def __init__(self) -> None:
            super().__init__(database, is_long=EXAMPLES > 0)

    chosen = settings(
        **{
            "max_examples": EXAMPLES or FEW,
            "stateful_step_count": STEPS,
            "derandomize": not EXAMPLES,
            "database": None,
            "phases": PHASES,
            "deadline": None,
            "print_blob": True,
            "suppress_health_check": list(HealthCheck),
            **options,
        }
    )
    run_state_machine_as_test(Machine, settings=chosen)


@pytest.mark.timeout((EXAMPLES or FEW) * EACH + SHRINKING)
def test_the_store_matches_the_model_after_any_sequence_of_operations(database: str) -> None:
    run(database)


@pytest.mark.only_on("sqlite")
@pytest.mark.timeout(SHRINKING)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_state_machine_finds_a_mistake(database: str, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = MISTAKES[mistake]

    def statement(self: Dialect, text: str, *params: Any, returns: str = "") -> Statement:
        return Dialect.statement(self, text.replace(right, wrong), *params, returns=returns)

    def statement_for_ids(self: Dialect, text: str, ids: Sequence[Any], returns: str = "") -> Statement:
        return Dialect.statement_for_ids(self, text.replace(right, wrong), ids, returns)

    with monkeypatch.context() as patched, pytest.raises(AssertionError):
        patched.setattr(SQLite, "statement", statement)
        patched.setattr(SQLite, "statement_for_ids", statement_for_ids)
        run(database, phases=[Phase.generate], report_multiple_bugs=False, max_examples=100)
    empty_tables(database)
