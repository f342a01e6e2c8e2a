"""A short storm on each database, with a fixed seed; the long one is `make storm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.storm.driver import Plan, control_plan, limits_plan
from tests.storm.report import row, table
from tests.storm.run import storm

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = {"postgres": 1, "mariadb": 2, "sqlite": 3}


@pytest.mark.timeout(120)  # on a busy machine the tasks that remain after it take their time
def test_in_a_storm_every_task_ends_once_or_is_reported(database: str, tmp_path: Path) -> None:
    storm_run, findings = storm(Plan(database, SEEDS[database], seconds=6, tasks=180), tmp_path)
    assert not findings.violations, "\n".join([table([row(storm_run, findings)]), *findings.violations])
    assert findings.enqueued == 180
    assert all(int(row(storm_run, findings)[fault]) for fault in ("kills", "terms", "freezes"))


@pytest.mark.timeout(240)  # eight interpreters have to start
@pytest.mark.usually_on("postgres")  # `make storm-limits` does it on each database, for longer
def test_limits_hold_and_nothing_is_stuck_while_eight_workers_are_killed(database: str, tmp_path: Path) -> None:
    storm_run, findings = storm(limits_plan(database, SEEDS[database], seconds=5, tasks=240), tmp_path)
    assert not findings.violations, "\n".join([table([row(storm_run, findings)]), *findings.violations])
    assert findings.enqueued == 240
    assert findings.at_once == {1: 1, 2: 2, 10: 10}
    assert int(row(storm_run, findings)["kills"]) >= 3


@pytest.mark.timeout(120)
@pytest.mark.usually_on("postgres")  # `make storm-control` does it on each database, for longer
def test_retries_cancellations_expiries_and_unique_keys_hold_while_workers_are_killed(
    database: str, tmp_path: Path
) -> None:
    storm_run, findings = storm(control_plan(database, SEEDS[database], seconds=6, tasks=200), tmp_path)
    assert not findings.violations, "\n".join([table([row(storm_run, findings)]), *findings.violations])
    assert int(row(storm_run, findings)["kills"]) >= 1
