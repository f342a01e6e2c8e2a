"""Splitting: rows that the database refuses together are halved until the bad one is alone, as the settler does.

The bad one is set aside: its job fails with a plain reason. All others are written as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from steady_queue import events
from steady_queue.aio.reports import report
from steady_queue.errors import StoreDataError
from steady_queue.registry import limits_in_force
from steady_queue.store.burial import BATCH, Fates, end, own_claims
from steady_queue.store.promote import parts
from steady_queue.store.set_aside import Owner, end_some, set_aside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from steady_queue.events import Events
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: Values that cannot be stored, or that are stored and cannot be read: SQLite stores a text as a time.
REFUSED = (StoreDataError, ValueError, TypeError, OverflowError)


class Run(Protocol):
    """Carries an operation to the database."""

    def __call__(self, operation: Operation[T], /) -> Awaitable[T]: ...


async def split(
    rows: Sequence[T],
    write: Callable[[Sequence[T]], Awaitable[None]],
    alone: Callable[[T, Exception], Awaitable[None]],
) -> None:
    """Write the rows; those of a part that is refused in halves, and what is refused by itself in its own way."""
    if not rows:
        return
    try:
        await write(rows)
    except REFUSED as error:
        if len(rows) == 1:
            await alone(rows[0], error)
            return
        middle = len(rows) // 2
        await split(rows[:middle], write, alone)
        await split(rows[middle:], write, alone)


class Ended(NamedTuple):
    """What became of claims, and what was said of the last that could not even be set aside, if there was one."""

    fates: Fates
    refusal: Exception | None


class Splitter:
    """Ends claims that were refused together."""

    def __init__(self, *, run: Run, sql: Dialect, events: Events) -> None:
        self._run = run
        self._sql = sql
        self._events = events

    async def end_process(
        self, process_id: UUID, name: str, error: ErrorReport, give_back: Collection[UUID] = ()
    ) -> Fates:
        """Fail the claims of a process that has ended, but for some that are given back, and remove its row."""
        operation = end(self._sql, process_id, name, error, give_back=give_back, limits=limits_in_force)
        try:
            return await self._run(operation)
        except REFUSED:
            claims = await self._run(own_claims(self._sql, process_id))
            (failed, given_back), refusal = await self.end_claims(Owner(name, process_id), claims, error, give_back)
            if refusal is not None:
                raise refusal from None
            rest = await self._run(operation)
            return Fates([*failed, *rest.failed], [*given_back, *rest.given_back])

    async def end_claims(
        self, owner: Owner, claims: Mapping[UUID, UUID], error: ErrorReport, give_back: Collection[UUID] = ()
    ) -> Ended:
        """Fail claims, each given with its job's id, but for some that are given back."""
        failed: list[UUID] = []
        given_back: list[UUID] = []
        left: list[Exception] = []

        async def write(part: Sequence[tuple[UUID, UUID]]) -> None:
            fates = await self._run(
                end_some(self._sql, owner, dict(part), error, give_back=give_back, limits=limits_in_force)
            )
            failed.extend(fates.failed)
            given_back.extend(fates.given_back)

        async def alone(claim: tuple[UUID, UUID], refusal: Exception) -> None:
            try:
                if await self.set_aside(owner, *claim, f"{error.message}; ", refusal):
                    failed.append(claim[1])
            except REFUSED as again:
                left.append(again)

        for part in parts(list(claims.items()), BATCH):
            await split(part, write, alone)
        return Ended(Fates(failed, given_back), left[-1] if left else None)

    async def set_aside(self, owner: Owner, claim_id: UUID, job_id: UUID, why: str, refusal: Exception) -> bool:
        """End a claim that is refused by itself; False when it is no longer there."""

        def operation(error: ErrorReport, writes_errors: bool) -> Operation[bool]:
            return set_aside(self._sql, owner, claim_id, job_id, error, writes_errors=writes_errors)

        return await self.put_aside(job_id, why, refusal, operation)

    async def put_aside(
        self, job_id: UUID, why: str, refusal: Exception, operation: Callable[[ErrorReport, bool], Operation[bool]]
    ) -> bool:
        """Let a job fail with a reason that any database can store; at last without a word in the job's own row."""
        error = report(StoreDataError, f"{why}its rows could not be changed as usual: {ascii(str(refusal))[:500]}")
        try:
            is_done = await self._run(operation(error, True))
        except REFUSED:
            is_done = await self._run(operation(error, False))
        if is_done:
            self._events.tell(events.JobSetAside(job_id=job_id, error=error.message))
        return is_done
