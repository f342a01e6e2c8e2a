"""KeptReports: what the task that `run_pending` runs has reported, until it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.aio.worker.reporting.task_reports import TaskReports
from steady_queue.jobs.running.context import NoServices
from steady_queue.jobs.running.reports import dump_line

if TYPE_CHECKING:
    from steady_queue.jobs.running.reports import LogLine, Progress
    from steady_queue.store.job import Claim
    from steady_queue.store.operations.task_data import Report


class KeptReports(NoServices):
    """Keeps what tasks report until `run_pending` writes it, at the end of each task."""

    saves = True

    def __init__(self) -> None:
        self._of_task: TaskReports | None = None

    def put_progress(self, claim: Claim, progress: Progress) -> None:
        self._reports(claim).progress = progress

    def put_line(self, claim: Claim, line: LogLine) -> None:
        self._reports(claim).add_line(dump_line(line))

    def take(self) -> list[Report]:
        """Return what the task that has ended reported, if anything."""
        reports, self._of_task = self._of_task, None
        return [] if reports is None else [reports.as_report()]

    def _reports(self, claim: Claim) -> TaskReports:
        if self._of_task is None or self._of_task.claim.claim_id != claim.claim_id:
            self._of_task = TaskReports(claim)
        return self._of_task
