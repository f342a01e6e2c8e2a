"""A worker that a test runs step by step: it claims a job and settles it."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING
from uuid import UUID

from steady_queue.store.job import Lane
from steady_queue.store.operations.actions.job_actions import discard, retry
from steady_queue.store.outcome import ErrorReport, Failed, Finished, Released
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.store.job import Claim


class Worker:
    """One registered process, over Django's connection."""

    def __init__(self, alias: str, name: str = "worker-1") -> None:
        self.name = name
        self._store = SyncStore(alias)
        self._id = self._store.worker(name)

    def claim(self, lane: Lane = Lane.THREAD) -> Claim:
        (claimed,) = self._store.claim(self._id, lane=lane)
        return claimed

    def finish(self, claimed: Claim, value: str | None = None) -> None:
        self._store.settle(Finished(claimed, value), process_name=self.name)

    def fail(self, claimed: Claim, error: BaseException) -> None:
        self._store.settle(Failed(claimed, report(error)), process_name=self.name)

    def release(self, claimed: Claim) -> None:
        self._store.settle(Released(claimed), process_name=self.name)

    def retry(self, job_id: str) -> None:
        self._store.run(retry(self._store.sql, [UUID(job_id)]))

    def discard(self, job_id: str) -> None:
        self._store.run(discard(self._store.sql, [UUID(job_id)]))


def report(error: BaseException) -> ErrorReport:
    """An exception as a worker writes it down."""
    kind = type(error)
    return ErrorReport(f"{kind.__module__}.{kind.__qualname__}", str(error), "".join(traceback.format_exception(error)))
