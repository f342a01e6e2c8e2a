"""The results of an enqueue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from steady_queue.jobs.results.results import of_new, of_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from steady_queue.jobs.definition.task import TaskCall
    from steady_queue.jobs.results.task_result import SteadyQueueResult
    from steady_queue.store.job import JobRecord, NewJob, Uniqueness

    _Results = Sequence[SteadyQueueResult[Any]]
else:
    _Results = Sequence  # Django's own TaskResult cannot be subscripted


class Existing(NamedTuple):
    """A job that has the unique key of a new one; without a record where it could not be read."""

    id: UUID
    record: JobRecord | None


class Results(_Results):
    """The results of an enqueue, in the order of its calls, each built when it is accessed."""

    def __init__(
        self,
        calls: Sequence[TaskCall],
        jobs: Sequence[NewJob],
        discarded: set[UUID] | None = None,
        existing: dict[UUID, Existing] | None = None,
    ) -> None:
        self.calls = calls
        self.jobs = jobs
        self._discarded = set() if discarded is None else discarded
        self._existing = {} if existing is None else existing

    def __len__(self) -> int:
        return len(self.jobs)

    @overload
    def __getitem__(self, index: int) -> SteadyQueueResult[Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Results: ...

    def __getitem__(self, index: int | slice) -> SteadyQueueResult[Any] | Results:
        if isinstance(index, slice):
            return Results(self.calls[index], self.jobs[index], self._discarded, self._existing)
        job = self.jobs[index]
        if self._existing and (existing := self._existing.get(job.id)) is not None:
            if existing.record is not None:
                return of_record(existing.record)
            job = job._replace(id=existing.id)
        return of_new(self.calls[index].task, job)

    def __repr__(self) -> str:
        return f"<Results of {len(self)} task{'' if len(self) == 1 else 's'}>"

    @property
    def ids(self) -> list[str]:
        """The ids, without building the results."""
        existing = self._existing
        return [str(existing[job.id].id if job.id in existing else job.id) for job in self.jobs]

    @property
    def discarded(self) -> list[str]:
        """The ids of the tasks that were discarded because they have `on_conflict="discard"` and found no free slot.

        Inside a transaction they are known after its commit. Unique tasks that a later one of the same call has
        replaced are among them.
        """
        return [str(job.id) for job in self.jobs if job.id in self._discarded] if self._discarded else []

    @property
    def stored(self) -> Results:
        """The results of the tasks that were stored: neither discarded, nor those of tasks that existed before."""
        if not self._discarded and not self._existing:
            return self
        others = self._discarded | self._existing.keys()
        kept = [at for at, job in enumerate(self.jobs) if job.id not in others]
        return Results([self.calls[at] for at in kept], [self.jobs[at] for at in kept])

    def discard(self, ids: Iterable[UUID]) -> None:
        """Record that these jobs were discarded."""
        self._discarded.update(ids)

    @property
    def existing(self) -> list[str]:
        """The ids of the tasks that existed before and have the unique keys of calls, which were not stored."""
        return [str(self._existing[job.id].id) for job in self.jobs if job.id in self._existing]

    @property
    def rules(self) -> dict[UUID, Uniqueness]:
        """How the unique ones among the jobs take their keys."""
        rules: dict[UUID, Uniqueness] = {}
        for at, job in enumerate(self.jobs):
            if job.unique_key is not None and (unique := getattr(self.calls[at].task, "unique", None)) is not None:
                rules[job.id] = unique.rule
        return rules

    def record_existing(self, existing: Mapping[UUID, UUID], records: Mapping[UUID, JobRecord]) -> None:
        """Record that jobs were not stored, because others have their unique keys."""
        self._existing.update((id_, Existing(other, records.get(other))) for id_, other in existing.items())
