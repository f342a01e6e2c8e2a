"""One storm and its findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.storm import attempt_log
from tests.storm.checker import Checker
from tests.storm.control_checker import ControlChecker, find_wrong_effects
from tests.storm.driver import Storm
from tests.storm.job_records import records
from tests.support.databases.invariants import violations
from tests.support.databases.tables import count, counts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storm.checker import Findings
    from tests.storm.driver import Plan


def storm(plan: Plan, directory: Path) -> tuple[Storm, Findings]:
    """Run a storm on an empty database, then check what it left."""
    storm_run = Storm(plan, directory)
    storm_run.run()
    attempts = attempt_log.read(storm_run.attempt_log_path)
    kind = ControlChecker if plan.cancels else Checker
    check = kind(storm_run.enqueued, records(plan.alias), attempts, storm_run.lives, together=plan.workers)
    findings = check.check()
    findings.violations += violations(plan.alias)
    if plan.cancels:
        findings.violations += find_wrong_effects(plan.alias, records(plan.alias))
    if unended := counts(plan.alias).keys() - {"failed"}:
        findings.violations.append(f"jobs are left that are {', '.join(sorted(unended))}")
    if left := count(plan.alias, "process"):
        findings.violations.append(f"{left} processes are registered although none is running")
    return storm_run, findings
