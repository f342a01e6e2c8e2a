"""`manage.py steady_queue check --stored`: its output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from steady_queue.checks.stored_jobs import count_stored, examine_stored
from steady_queue.events.wording import counted
from steady_queue.management.progress_bar import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.core.management.base import OutputWrapper

    from steady_queue.checks.stored_jobs import Finding, StoredReport


def check_stored(out: OutputWrapper, err: OutputWrapper, options: dict[str, Any]) -> int:
    """Look at the stored jobs, write what the code at hand could not run, and return the exit status."""
    report = _examine(err, options)
    if options["json"]:
        out.write(json.dumps(_as_json(report)))
    else:
        for line in _as_lines(report):
            out.write(line)
    return 1 if report.failing else 0


def _examine(err: OutputWrapper, options: dict[str, Any]) -> StoredReport:
    if options["verbosity"] < 1 or not err.isatty():
        return examine_stored(failed=options["failed"])
    bar = ProgressBar(sys.stderr, "stored tasks", count_stored(failed=options["failed"]))
    try:
        return examine_stored(failed=options["failed"], progress=bar.advance)
    finally:
        bar.end()


def _as_lines(report: StoredReport) -> Iterator[str]:
    for finding in report.sorted_findings():
        kind, verb = ("warning", "") if finding.problem.is_warning else ("error", " would fail")
        yield (
            f"{kind}: {finding.task_path}: {counted(finding.count, 'task')}{verb}: {finding.problem.reason} "
            f"(for example {finding.example})"
        )
    recurring = report.checked["recurring"]
    jobs = report.checked.total() - recurring
    also = f" and {counted(recurring, 'recurring task')}" if recurring else ""
    yield f"{counted(jobs, 'stored task')}{also} checked: {report.failing or 'none'} would fail"


def _as_json(report: StoredReport) -> dict[str, Any]:
    return {
        "checked": dict(report.checked),
        "failing": report.failing,
        "findings": list(map(_finding_as_json, report.sorted_findings())),
    }


def _finding_as_json(finding: Finding) -> dict[str, Any]:
    return {
        "task": finding.task_path,
        "level": "warning" if finding.problem.is_warning else "error",
        "reason": finding.problem.reason,
        "count": finding.count,
        "example": finding.example,
    }
