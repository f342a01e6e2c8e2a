"""A short storm on each database, with a fixed seed; the long one is `make storm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.storm.driver import Plan, limits_plan
from tests.storm.report import row, table
from tests.storm.run import storm

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = {"postgres": 1, "mariadb": 2, "sqlite": 3}


@pytest.mark.timeout(120)  # on a busy machine the calm after it takes its time
def test_in_a_storm_every_task_ends_once_or_is_reported(database: str, tmp_path: Path) -> None:
    raged, judgement = storm(Plan(database, SEEDS[database], seconds=6, tasks=180), tmp_path)
    assert not judgement.violations, "\n".join([table([row(raged, judgement)]), *judgement.violations])
    assert judgement.enqueued == 180
    assert all(int(row(raged, judgement)[fault]) for fault in ("kills", "terms", "freezes"))


@pytest.mark.timeout(240)  # eight interpreters have to start
@pytest.mark.usually_on("postgres")  # `make storm-limits` does it on each database, for longer
def test_limits_hold_and_nothing_is_stuck_while_eight_workers_are_killed(database: str, tmp_path: Path) -> None:
    raged, judgement = storm(limits_plan(database, SEEDS[database], seconds=5, tasks=240), tmp_path)
    assert not judgement.violations, "\n".join([table([row(raged, judgement)]), *judgement.violations])
    assert judgement.enqueued == 240
    assert judgement.at_once == {1: 1, 2: 2, 10: 10}
    assert int(row(raged, judgement)["kills"]) >= 3
