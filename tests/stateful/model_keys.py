"""The unique keys of the model: which job has each key, and whether another one may take it over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import Status, Until
from tests.stateful.model_job import WAITING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from tests.stateful.model import Model
    from tests.stateful.model_job import Job


class Key(NamedTuple):
    """The last job that took a key."""

    job_id: UUID
    until: int
    #: The hour from which it is not held any longer for its time alone.
    free_in: int = 0


@dataclass(slots=True)
class UniqueKeys:
    """No row is deleted: one that no job needs means nothing. The database may have deleted it or not."""

    rows: dict[str, Key] = field(default_factory=dict)

    def needed(self, model: Model) -> dict[str, tuple[UUID, int, bool]]:
        """The keys that are held for some time, or whose jobs are unfinished."""
        return {
            key: (row.job_id, row.until, self.is_held(key, model))
            for key, row in self.rows.items()
            if self.is_held(key, model) or self._is_unfinished(key, model)
        }

    def is_held(self, key: str, model: Model) -> bool:
        return key in self.rows and model.hour < self.rows[key].free_in

    def holder(self, key: str, model: Model, *, sees_deleted: bool = True) -> UUID | None:
        """The job from which the key cannot be taken over.

        Without `sees_deleted`, as in a transaction of the caller on MariaDB, a job that does not exist may be new.
        """
        row = self.rows.get(key)
        if row is None:
            return None
        job = model.jobs.get(row.job_id)
        if self.is_held(key, model) or (job is None and not sees_deleted):
            return row.job_id
        is_started = row.until == Until.STARTED and job is not None and job.status is Status.CLAIMED
        return row.job_id if self._is_unfinished(key, model) and not is_started else None

    def retake(self, jobs: Sequence[Job], model: Model, *, sees_deleted: bool = True) -> dict[UUID, UUID]:
        """Jobs wait again; returns those whose keys other jobs have, each with the other."""
        unique = {job.new.unique_key: job for job in sorted(jobs, key=lambda job: job.id, reverse=True)}
        holders = {}
        for key, job in unique.items():
            if key is not None:
                holders[key] = self.holder(key, model, sees_deleted=sees_deleted) or self._assign(key, job)
        # Of two with the same key, the older one takes it.
        return {job.id: holder for job in jobs if (holder := holders.get(job.new.unique_key or "", job.id)) != job.id}

    def _assign(self, key: str, job: Job) -> UUID:
        until = job.new.unique_until
        self.rows[key] = Key(job.id, Until.FINISHED if until is None else until)
        return job.id

    def _is_unfinished(self, key: str, model: Model) -> bool:
        job = model.jobs.get(self.rows[key].job_id)
        return job is not None and job.new.unique_key == key and job.status in (*WAITING, Status.CLAIMED)
