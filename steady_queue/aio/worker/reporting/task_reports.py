"""What one task has reported and is not written yet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from steady_queue.jobs.running.reports import dump_progress
from steady_queue.store.operations.task_data import LOG_CHARACTERS, Report

if TYPE_CHECKING:
    from steady_queue.jobs.running.reports import Progress
    from steady_queue.store.job import Claim


class TaskReports:
    """The newest progress of a task, and the newest lines of its log."""

    __slots__ = ("characters", "claim", "is_last_try", "lines", "progress")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.progress: Progress | None = None
        self.lines: deque[str] = deque()
        self.characters = 0
        #: Whether the process no longer knew the claim when these could not be written.
        self.is_last_try = False

    def add_line(self, line: str) -> None:
        """Keep a line, and no more lines than the database keeps."""
        self.lines.append(line)
        self.characters += len(line) + 1
        while self.characters > LOG_CHARACTERS and len(self.lines) > 1:
            self.characters -= len(self.lines.popleft()) + 1

    def add_newer(self, newer: TaskReports) -> None:
        self.progress = newer.progress or self.progress
        for line in newer.lines:
            self.add_line(line)

    def as_report(self) -> Report:
        progress = None if self.progress is None else dump_progress(self.progress)
        log = "\n".join(self.lines) if self.lines else None
        return Report(self.claim.job_id, self.claim.claim_id, progress, log)
