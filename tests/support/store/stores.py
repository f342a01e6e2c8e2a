"""The store as tests drive it: the same plain calls over Django's connection and over the async driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid4

from steady_queue.db.aliases import django_driver, open_async
from steady_queue.store.job import Lane, OnDuplicate, Uniqueness
from steady_queue.store.operations.actions.job_actions import discard, retry
from steady_queue.store.operations.actions.queues import find_waiting_queues
from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.processes.registration import NewProcess, register
from steady_queue.store.operations.promote import NO_LIMITS, promote
from steady_queue.store.operations.results import find_jobs
from steady_queue.store.operations.settle import settle
from steady_queue.store.statement import Operation
from tests.support.store.statements import only

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from anyio.from_thread import BlockingPortal

    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim, JobRecord, NewJob
    from steady_queue.store.operations.enqueue import Enqueued
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.outcome import Outcome, Settlement
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Row

T = TypeVar("T")


class Store(ABC):
    """One database through one driver, with a method for each common operation. Any thread may call it."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    @property
    @abstractmethod
    def sql(self) -> Dialect: ...

    @abstractmethod
    def run(self, operation: Operation[T]) -> T: ...

    def enqueue(
        self,
        *jobs: NewJob,
        promoting: bool = True,
        is_repeated: bool = False,
        limits: Limits = NO_LIMITS,
        on_duplicate: OnDuplicate = OnDuplicate.REJECT,
        within_microseconds: int | None = None,
        raises: bool = True,
    ) -> Enqueued:
        rules = {
            job.id: Uniqueness(job.unique_until or 0, on_duplicate, within_microseconds)
            for job in jobs
            if job.unique_key is not None
        }
        return self.run(
            enqueue(
                self.sql,
                jobs,
                promoting=promoting,
                is_repeated=is_repeated,
                limits=limits,
                rules=rules,
                raises=raises,
            )
        )

    def worker(self, name: str = "worker", id_: UUID | None = None) -> UUID:
        """The id of a process that has just been registered."""
        process = NewProcess(id=id_ or uuid4(), kind="worker", name=name, pid=4711, hostname="somewhere")
        self.run(register(self.sql, process))
        return process.id

    def claim(
        self, process_id: UUID, limit: int = 1, *, lane: Lane = Lane.ASYNC, queues: Sequence[str] | None = None
    ) -> list[Claim]:
        """From these queues, or from all: by their names while something is paused, as a worker does."""
        if queues is None:
            claims, is_paused = self.run(claim_from_all(self.sql, ClaimRequest(process_id, lane, limit)))
            if not is_paused:
                return claims
            queues = self.run(find_waiting_queues(self.sql)).names[lane]
        return self.run(claim(self.sql, ClaimRequest(process_id, lane, limit, queues)))

    def claimed(self, *jobs: NewJob, process_id: UUID | None = None) -> list[Claim]:
        """The claims of jobs that have just been enqueued, in their order; nothing else may be ready."""
        self.enqueue(*jobs)
        taken = {claim.job_id: claim for claim in self.claim(process_id or self.worker(), len(jobs))}
        assert taken.keys() == {job.id for job in jobs}
        return [taken[job.id] for job in jobs]

    def settle(
        self,
        *outcomes: Outcome,
        process_name: str = "worker",
        preserve: bool = True,
        by_owner: bool = True,
        limits: Limits = NO_LIMITS,
    ) -> Settlement:
        return self.run(
            settle(self.sql, outcomes, process_name=process_name, preserve=preserve, by_owner=by_owner, limits=limits)
        )

    def promote(self, keys: Mapping[str, int], limits: Limits = NO_LIMITS) -> list[UUID]:
        return self.run(promote(self.sql, keys, limits))

    def retry(self, *jobs: NewJob, limits: Limits = NO_LIMITS) -> list[UUID]:
        return self.run(retry(self.sql, [job.id for job in jobs], limits)).ids

    def discard(self, *jobs: NewJob, limits: Limits = NO_LIMITS) -> list[UUID]:
        return self.run(discard(self.sql, [job.id for job in jobs], limits)).ids

    def find(self, *jobs: NewJob) -> list[JobRecord]:
        return self.run(find_jobs(self.sql, [job.id for job in jobs]))

    def status(self, *jobs: NewJob) -> list[str]:
        """The state of each of the jobs, all of which must exist."""
        records = self.find(*jobs)
        assert [record.id for record in records] == [job.id for job in jobs]
        return [record.status.value for record in records]

    def now(self) -> datetime:
        """The database's time."""
        return self.ask(f"SELECT {self.sql.now}", returns="t")[0][0]  # type: ignore[no-any-return]

    def ask(self, text: str, *params: Any, returns: str = "") -> list[Row]:
        """The rows of one statement in the store's portable SQL."""
        return self.run(
            Operation("ask", lambda: only(self.sql.statement(text, *params, returns=returns)), transaction=False)
        )


class SyncStore(Store):
    """Over the calling thread's own Django connection."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self._driver = django_driver(alias)

    @property
    def sql(self) -> Dialect:
        return self._driver.sql

    def run(self, operation: Operation[T]) -> T:
        return self._driver.run(operation)


class AsyncStore(Store):
    """Over the async driver, in the event loop of a portal."""

    def __init__(self, alias: str, portal: BlockingPortal, driver: AsyncDriver) -> None:
        super().__init__(alias)
        self._portal = portal
        self._driver = driver

    @property
    def sql(self) -> Dialect:
        return self._driver.sql

    def run(self, operation: Operation[T]) -> T:
        return self._portal.call(self._driver.run, operation)


@contextmanager
def async_store(alias: str, portal: BlockingPortal, *, size: int = 4) -> Iterator[AsyncStore]:
    """A store over a new async driver, whose connections are closed at the end."""

    async def opened() -> AsyncDriver:
        return open_async(alias, size=size)

    driver = portal.call(opened)
    try:
        yield AsyncStore(alias, portal, driver)
    finally:
        portal.call(driver.close)
