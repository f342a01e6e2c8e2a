"""One storm with its judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.storm import attempt_log
from tests.storm.checker import Judge
from tests.storm.driver import Storm
from tests.storm.job_records import records
from tests.support.databases.invariants import violations
from tests.support.databases.tables import count, counts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storm.checker import Judgement
    from tests.storm.driver import Plan


def storm(plan: Plan, directory: Path) -> tuple[Storm, Judgement]:
    """Let it rage on an empty database, then look at what is left."""
    raged = Storm(plan, directory)
    raged.run()
    attempts = attempt_log.read(raged.ledger)
    judge = Judge(raged.enqueued, records(plan.alias), attempts, raged.lives, together=plan.workers)
    judgement = judge.judge()
    judgement.violations += violations(plan.alias)
    if unended := counts(plan.alias).keys() - {"failed"}:
        judgement.violations.append(f"jobs are left that are {', '.join(sorted(unended))}")
    if left := count(plan.alias, "process"):
        judgement.violations.append(f"{left} processes are registered although none is there")
    return raged, judgement
