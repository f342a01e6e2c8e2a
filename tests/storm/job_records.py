"""The final state of the jobs of a storm in the database."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.apps import apps

from steady_queue.store.job import FailureKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Record:
    """One job at the end. Times are seconds of the machine's monotonic clock."""

    id: str
    finished: float | None
    failed: float | None
    #: The name of the exception's class, without its module.
    error: str
    message: str
    #: The process that is named with the last attempt, or None.
    pid: int | None
    attempts: int
    value: str | None
    key: str | None
    limit: int
    #: The name of the task's function, and why it failed.
    task: str = ""
    failure: FailureKind | None = None
    unique_key: str | None = None
    arguments: str = ""


def records(alias: str) -> dict[str, Record]:
    """Every job by its id."""
    offset = time.time() - time.monotonic()

    def seconds(moment: datetime | None) -> float | None:
        return None if moment is None else moment.timestamp() - offset

    failures: dict[Any, Any] = {row["job_id"]: row for row in _rows(alias, "failedexecution")}
    found = {}
    for job in _rows(alias, "job"):
        failure = failures.get(job["id"], {"failed_at": None, "exception_class": "", "message": ""})
        found[str(job["id"])] = Record(
            id=str(job["id"]),
            finished=seconds(job["finished_at"]),
            failed=seconds(failure["failed_at"]),
            error=failure["exception_class"].rpartition(".")[2],
            message=failure["message"],
            pid=_pid((job["worker_ids"] or "").rpartition("\n")[2]),
            attempts=job["attempts"],
            value=None if job["return_value"] is None else json.loads(job["return_value"]),
            key=job["concurrency_key"],
            limit=job["concurrency_limit"] or 0,
            task=job["task_path"].rpartition(".")[2],
            failure=None if failure["failed_at"] is None else FailureKind(failure["kind"]),
            unique_key=job["unique_key"],
            arguments=job["arguments"],
        )
    return found


def _rows(alias: str, table: str) -> Iterable[dict[str, Any]]:
    rows: Iterable[dict[str, Any]] = apps.get_model("steady_queue", table)._base_manager.using(alias).values()
    return rows


def _pid(worker_id: str) -> int | None:
    """The process id in a worker's name: the host, the process id and a part of its own id, with colons between."""
    parts = worker_id.rsplit(":", 2)
    return int(parts[1]) if len(parts) == 3 else None
