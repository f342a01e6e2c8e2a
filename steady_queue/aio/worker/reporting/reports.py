"""Reports: writes the progress and the logs of running tasks, in batches.

A report only goes into memory, from any thread. The first one is written at once, the next ones a second later, those
of all tasks together: one statement for each second and 5,000 tasks (1,000 on MySQL and SQLite). Of several reports of
one task the newest progress is written, and all lines of its log. What a task reported before it ended is written
before its outcome is. While nothing is reported, nothing is written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.timing import CooperativeYield
from steady_queue.aio.worker.reporting.task_reports import TaskReports
from steady_queue.errors import StoreDataError, StoreError
from steady_queue.jobs.running.reports import dump_line
from steady_queue.store.operations.task_data import write_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.aio.worker.awaited import AwaitedJobs
    from steady_queue.jobs.running.reports import LogLine, Progress
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim
    from steady_queue.store.operations.task_data import Report

#: The pause between two batches.
INTERVAL_SECONDS = 1.0
#: Characters of reports in one statement: database servers limit its size.
BATCH_CHARACTERS = 4_000_000


class Reports:
    """Those of all tasks of a process."""

    def __init__(
        self, *, driver: AsyncDriver, known_claims: Callable[[], set[UUID]], awaited: AwaitedJobs, context: Context
    ) -> None:
        self._driver = driver
        self._known_claims = known_claims
        self._awaited = awaited
        self._clock = context.clock
        self._events = context.events
        self._outage = context.outage
        self._pending: dict[UUID, TaskReports] = {}
        self._in_flight: frozenset[UUID] = frozenset()
        #: Whether the last batch could not be written: outcomes do not wait for reports then.
        self._is_failing = False
        #: Guards what waits: tasks report from any thread.
        self._lock = Lock()
        #: Held while a batch is written.
        self._writing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._is_awake = False
        self._loop = asyncio.get_running_loop()

    @property
    def are_pending(self) -> bool:
        return bool(self._pending or self._in_flight)

    # -- from tasks ---------------------------------------------------------------------------------------------------

    def put_progress(self, claim: Claim, progress: Progress) -> None:
        """Keep the progress of a task until it is written. May be called from any thread."""
        with self._lock:
            self._of(claim).progress = progress
        self._wake_writer()

    def put_line(self, claim: Claim, line: LogLine) -> None:
        """Keep a line of a task's log until it is written. May be called from any thread."""
        text = dump_line(line)
        with self._lock:
            self._of(claim).add_line(text)
        self._wake_writer()

    def _of(self, claim: Claim) -> TaskReports:
        reports = self._pending.get(claim.claim_id)
        if reports is None:
            reports = self._pending[claim.claim_id] = TaskReports(claim)
        return reports

    def _wake_writer(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            with suppress(RuntimeError):  # a thread that outlives the event loop
                self._loop.call_soon_threadsafe(self._wake.set)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._is_awake = False
            try:
                await self._write_pending()
            except StoreError as error:
                self._wake_writer()
                await self._outage.wait("reports", error)
            else:
                self._outage.succeeded("reports")
            await asyncio.sleep(INTERVAL_SECONDS)

    async def flush(self) -> None:
        """Write everything now, if the database allows it."""
        with suppress(StoreError):
            await self._write_pending()

    async def flush_claims(self, claim_ids: Collection[UUID]) -> None:
        """Write the reports of these claims now, if there are any and the database allows it."""
        if self._is_failing:
            return
        if any(claim_id in self._pending or claim_id in self._in_flight for claim_id in claim_ids):
            with suppress(StoreError):
                await self._write_pending(claim_ids)

    async def _write_pending(self, claim_ids: Collection[UUID] | None = None) -> None:
        async with self._writing:
            taken = self._take(claim_ids)
            self._in_flight = frozenset(each.claim.claim_id for each in taken)
            try:
                while taken:
                    await self._write_chunk(await self._take_chunk(taken))
                self._is_failing = False
            except BaseException:
                self._is_failing = True
                self._put_back(taken)
                raise
            finally:
                self._in_flight = frozenset()

    async def _write_chunk(self, chunk: Sequence[tuple[TaskReports, Report]]) -> None:
        try:
            written = await self._write([report for _, report in chunk])
        except BaseException:
            self._put_back([each for each, _ in chunk])
            raise
        self._awaited.changed(lambda: [each.claim.job_id for each, _ in chunk])
        if unwritten := [each for each, report in chunk if report.claim_id not in written]:
            self._put_back(self._choose_again(unwritten))

    def _choose_again(self, unwritten: Iterable[TaskReports]) -> list[TaskReports]:
        """Return the reports to try again: those whose rows were locked, and not those whose claims are lost."""
        known = self._known_claims()
        again = []
        for each in unwritten:
            is_known = each.claim.claim_id in known
            if is_known or not each.is_last_try:
                # A task that has just ended may have held the lock until then: one more try.
                each.is_last_try = not is_known
                again.append(each)
        return again

    def _take(self, claim_ids: Collection[UUID] | None) -> deque[TaskReports]:
        with self._lock:
            if claim_ids is None:
                taken, self._pending = self._pending, {}
                return deque(taken.values())
            return deque(self._pending.pop(claim_id) for claim_id in claim_ids if claim_id in self._pending)

    async def _take_chunk(self, taken: deque[TaskReports]) -> list[tuple[TaskReports, Report]]:
        """Return the reports of the next statement, with their rows."""
        cooperation = CooperativeYield(self._clock)
        chunk: list[tuple[TaskReports, Report]] = []
        characters = 0
        while taken and len(chunk) < self._driver.sql.reports_per_statement and characters < BATCH_CHARACTERS:
            report = taken[0].as_report()
            chunk.append((taken.popleft(), report))
            characters += len(report.progress or "") + len(report.log or "")
            await cooperation.yield_if_due()
        return chunk

    async def _write(self, reports: list[Report]) -> set[UUID]:
        """Write reports; those that can never be stored are dropped, alone."""
        try:
            return await self._driver.run(write_reports(self._driver.sql, reports))
        except StoreDataError as error:
            if len(reports) > 1:
                middle = len(reports) // 2
                return await self._write(reports[:middle]) | await self._write(reports[middle:])
            self._events.emit(events.RuntimeFault(where="reports", error=str(error), exception=error))
            return {reports[0].claim_id}

    def _put_back(self, unwritten: Iterable[TaskReports]) -> None:
        with self._lock:
            for older in unwritten:
                newer = self._pending.get(older.claim.claim_id)
                if newer is not None:
                    older.add_newer(newer)
                self._pending[older.claim.claim_id] = older
        if self._pending:
            self._wake_writer()
