"""The events of jobs whose process is gone: which have failed, which are retried and which were cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.worker.settler import retry_event

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from steady_queue.events import Events
    from steady_queue.store.operations.processes.lost_claims import SettledClaims
    from steady_queue.store.operations.uniqueness.displacement import DisplacedJob
    from steady_queue.store.outcome import ErrorReport


def emit_settled(emitter: Events, settled: SettledClaims, process_id: UUID | None, error: ErrorReport) -> None:
    """Emit what became of the claims of a process, or of claims without a process. A release is not emitted."""
    if failed := settled.failed:
        emitter.emit(events.JobsFailed(process_id=process_id, job_ids=failed, count=len(failed), error=error.message))
    for retried in settled.retried:
        emitter.emit(retry_event(retried))
    for cancelled in settled.cancelled:
        claim = cancelled.claim
        emitter.emit(events.JobCancelled(job_id=claim.job_id, task_path=claim.task_path, error=cancelled.error.message))
    emit_displaced(emitter, settled.displaced)


def emit_displaced(emitter: Events, displaced: Iterable[DisplacedJob]) -> None:
    """Emit which jobs were to wait again, and ended because other jobs have their unique keys."""
    for job in displaced:
        emitter.emit(events.JobDisplaced(job_id=job.job_id, task_path=job.task_path, other_id=job.other_id))
