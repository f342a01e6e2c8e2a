"""The machine on each database: a fixed, small number of examples here; `make machine` tries many, each time others."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.hands import Hands

#: Examples to try; unless told, a few that are always the same.
EXAMPLES = int(os.environ.get("STEADY_QUEUE_MACHINE_EXAMPLES", "0"))
STEPS = int(os.environ.get("STEADY_QUEUE_MACHINE_STEPS", "50"))
FEW = 30
#: Seconds that an example takes at most, on a busy machine, and in all for making a failing one small.
EACH, SHRINKING = 15, 600


@pytest.mark.timeout((EXAMPLES or FEW) * EACH + SHRINKING)
def test_whatever_is_done_to_it_the_queue_is_as_the_model_says(database: str) -> None:
    chosen = settings(
        max_examples=EXAMPLES or FEW,
        stateful_step_count=STEPS,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )

    class Machine(Hands):
        def __init__(self) -> None:
            super().__init__(database, is_long=EXAMPLES > 0)

    run_state_machine_as_test(Machine, settings=chosen)
