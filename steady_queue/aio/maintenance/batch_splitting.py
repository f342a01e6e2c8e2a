"""Splitting: halves rows that the database rejects together until the bad one is alone, as the settler does.

The bad one is set aside: its job fails with a plain reason. All others are written as usual.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from steady_queue import events
from steady_queue.aio.maintenance.lost_claims import emit_displaced
from steady_queue.errors import StoreDataError
from steady_queue.jobs.registry import limits_in_force
from steady_queue.jobs.running.retries import decide_lost
from steady_queue.store.operations.maintenance.set_aside import ClaimOwner, end_claims, set_aside
from steady_queue.store.operations.processes import prune
from steady_queue.store.operations.processes.lost_claims import SettledClaims
from steady_queue.store.operations.processes.prune import BATCH_ROWS
from steady_queue.store.outcome import report
from steady_queue.store.statement import chunks_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from steady_queue.events import Events
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: Values that cannot be stored, or that are stored and cannot be read. An error of the runtime itself is neither: it
#: must set no job aside.
REJECTED = StoreDataError


class Driver(Protocol):
    """Runs operations."""

    @property
    def sql(self) -> Dialect: ...
    async def run(self, operation: Operation[T], /) -> T: ...


async def split(
    rows: Sequence[T],
    write: Callable[[Sequence[T]], Awaitable[None]],
    alone: Callable[[T, Exception], Awaitable[None]],
) -> list[Exception]:
    """Write the rows; a part that is rejected is halved, and `alone` handles a row that is rejected by itself.

    Returns the errors of the rows for which `alone` was rejected as well.
    """
    if not rows:
        return []
    try:
        await write(rows)
    except REJECTED as error:
        if len(rows) > 1:
            middle = len(rows) // 2
            return [*await split(rows[:middle], write, alone), *await split(rows[middle:], write, alone)]
        try:
            await alone(rows[0], error)
        except REJECTED as rejection:
            return [rejection]
    return []


class EndedClaims(NamedTuple):
    """The claims that were ended, and the last error of a claim that could not be set aside, if any."""

    settled: SettledClaims
    rejection: Exception | None


class ClaimSplitter:
    """Ends claims that were rejected together."""

    def __init__(self, *, driver: Driver, events: Events) -> None:
        self._driver = driver
        self._events = events

    async def end_process(
        self, process_id: UUID, name: str, error: ErrorReport, release: Collection[UUID] = ()
    ) -> EndedClaims:
        """End the claims of a process that has ended, except some that are released, and remove its row.

        The row stays if there is a rejection.
        """
        operation = prune.prune_exited_process(
            self._driver.sql, process_id, name, error, release=release, limits=limits_in_force, decide=decide_lost
        )
        try:
            return EndedClaims(await self._driver.run(operation), None)
        except REJECTED:
            pass
        ended = SettledClaims()
        rejection: Exception | None
        try:
            claims = await self._driver.run(prune.find_process_claims(self._driver.sql, process_id))
            ended, rejection = await self.end_claims(ClaimOwner(name, process_id), claims, error, release)
            if rejection is None:
                rest = await self._driver.run(operation)
                ended += rest
        except REJECTED as again:
            rejection = again
        return EndedClaims(ended, rejection)

    async def end_claims(
        self, owner: ClaimOwner, claims: Mapping[UUID, UUID], error: ErrorReport, release: Collection[UUID] = ()
    ) -> EndedClaims:
        """End claims, each given with its job's id, except some that are released."""
        parts: list[SettledClaims] = []
        rejections: list[Exception] = []

        async def write(part: Sequence[tuple[UUID, UUID]]) -> None:
            given = (self._driver.sql, owner, dict(part), error)
            operation = end_claims(*given, release=release, limits=limits_in_force, decide=decide_lost)
            parts.append(await self._driver.run(operation))

        async def alone(claim: tuple[UUID, UUID], rejection: Exception) -> None:
            if await self.set_aside(owner, *claim, f"{error.message}; ", rejection):
                parts.append(SettledClaims(failed=[claim[1]]))

        for part in chunks_of(list(claims.items()), BATCH_ROWS):
            rejections += await split(part, write, alone)
        return EndedClaims(sum(parts, SettledClaims()), rejections[-1] if rejections else None)

    async def release_claims(self, owner: ClaimOwner, claims: Mapping[UUID, UUID]) -> tuple[int, Exception | None]:
        """Release claims, and set aside those whose release the database rejects.

        Returns how many were ended, and the last error of a claim that could not be set aside.
        """
        counts: list[int] = []

        async def write(part: Sequence[tuple[UUID, UUID]]) -> None:
            operation = prune.release_claims(self._driver.sql, dict(part), owner.name, limits_in_force)
            released = await self._driver.run(operation)
            counts.append(released.total)
            emit_displaced(self._events, released.displaced)

        async def alone(claim: tuple[UUID, UUID], rejection: Exception) -> None:
            why = "this process did not know that it had claimed the task; "
            counts.append(await self.set_aside(owner, *claim, why, rejection))

        rejections = await split(list(claims.items())[:BATCH_ROWS], write, alone)
        return sum(counts), rejections[-1] if rejections else None

    async def set_aside(self, owner: ClaimOwner, claim_id: UUID, job_id: UUID, why: str, rejection: Exception) -> bool:
        """End a claim that is rejected by itself; False when it is no longer there."""
        operation = partial(set_aside, self._driver.sql, owner, claim_id, job_id)
        return await self.fail_with_rejection(job_id, why, rejection, operation)

    async def fail_with_rejection(
        self, job_id: UUID, why: str, rejection: Exception, operation: Callable[[ErrorReport, bool], Operation[bool]]
    ) -> bool:
        """Fail the job with the rejection as its reason.

        If its own row is rejected too, write only the failed execution.
        """
        error = report(StoreDataError, f"{why}its rows could not be changed as usual: {ascii(str(rejection))[:500]}")
        try:
            is_done = await self._driver.run(operation(error, True))
        except REJECTED:
            is_done = await self._driver.run(operation(error, False))
        if is_done:
            self._events.emit(events.JobSetAside(job_id=job_id, error=error.message))
        return is_done
