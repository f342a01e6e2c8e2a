"""Run the tasks that a test has enqueued, in the test itself: `run_pending`, and its worker, `Drain`."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from anyio import CancelScope
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, connections
from django.utils import timezone, translation

import steady_queue
from steady_queue.aio.process_identity import hostname
from steady_queue.aio.worker.executor import Executor
from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.jobs.compat import task_finished
from steady_queue.jobs.definition.expiry import refuse_expired
from steady_queue.jobs.registry import limits_in_force, registry
from steady_queue.jobs.results import results
from steady_queue.jobs.running.context import TaskControl
from steady_queue.models import Job, Pause, ReadyExecution, ScheduledExecution
from steady_queue.store.job import Lane, NewJob
from steady_queue.store.operations.actions.queues import find_queue_names
from steady_queue.store.operations.claim import ClaimRequest, claim
from steady_queue.store.operations.dispatch import dispatch
from steady_queue.store.operations.enqueue import admit
from steady_queue.store.operations.processes.prune import BATCH_ROWS, find_process_claims, release_claims
from steady_queue.store.operations.processes.registration import NewProcess, deregister, register
from steady_queue.store.operations.results import find_jobs
from steady_queue.store.operations.settle import settle
from steady_queue.store.operations.task_data import write_reports
from steady_queue.store.outcome import Completed, Failed, Finished, report_of
from steady_queue.store.queue_selection import QueueSelection
from steady_queue.testing.deadline_timer import cancel_at_deadline
from steady_queue.testing.kept_reports import KeptReports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.backends.base.base import BaseDatabaseWrapper

    from steady_queue.jobs.compat import TaskResult
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Ending

    Queues = str | Sequence[str] | None

#: The name of the worker in the results.
WORKER_NAME = "run_pending"
NOT_AHEAD = timedelta(0)


def run_pending(
    *, queues: Queues = None, including_scheduled: bool | timedelta = False, raising: bool = False, at_most: int = 1000
) -> list[TaskResult[Any]]:
    """Run the tasks that are ready or due, and those that they enqueue, in this thread; returns results in that order.

    `queues` are names or `prefix*`, in order, as for a worker. `including_scheduled` also runs scheduled tasks, all or
    those due within a timedelta, each when no other task is left; so also the next attempts of tasks that are retried.
    There is a result for each attempt, and the result of a failed one has its error. With `raising`, the first error of
    a task that has failed for good is raised, and the remaining tasks stay enqueued. More than `at_most` attempts are
    an error: an endless chain of tasks that enqueue each other.
    """
    drain = Drain(queues, including_scheduled, raising, at_most)
    drain.open()
    try:
        while (claimed := drain.take()) is not None:
            drain.end(contextvars.copy_context().run(drain.call, claimed))
    finally:
        drain.close()
    return drain.results


async def arun_pending(
    *, queues: Queues = None, including_scheduled: bool | timedelta = False, raising: bool = False, at_most: int = 1000
) -> list[TaskResult[Any]]:
    """The async form of `run_pending`: awaits async tasks in this loop, and runs sync tasks by `sync_to_async`."""
    drain = Drain(queues, including_scheduled, raising, at_most)
    try:
        await sync_to_async(drain.open)()
        while (claimed := await sync_to_async(drain.take)()) is not None:
            await sync_to_async(drain.end)(await asyncio.create_task(drain.acall(claimed)))
    finally:
        with CancelScope(shield=True):
            await sync_to_async(drain.close)()
    return drain.results


class Drain:
    """The worker of one `run_pending`: it claims, runs and settles one job after another."""

    def __init__(self, queues: Queues, including_scheduled: bool | timedelta, raising: bool, at_most: int) -> None:
        self.results: list[TaskResult[Any]] = []
        self._queues = QueueSelection(
            ["*"] if queues is None else [queues] if isinstance(queues, str) else list(queues)
        )
        self._including_scheduled, self._raising, self._at_most = including_scheduled, raising, at_most
        driver = django_driver(queue_alias())
        self._alias, self._sql, self._run = driver.alias, driver.sql, driver.run
        self._process = NewProcess(uuid4(), "test", WORKER_NAME, os.getpid(), hostname())
        self._reports = KeptReports()
        self._executor = Executor(
            registry=registry, process_name=WORKER_NAME, watch_deadline=cancel_at_deadline, services=self._reports
        )
        self._running: Claim | None = None
        self._raised: BaseException | None = None
        self._savepoints: list[tuple[BaseDatabaseWrapper, str]] = []
        #: How far ahead of the clock each job was brought forward.
        self._ahead: dict[UUID, timedelta] = {}

    def open(self) -> None:
        """Register as a process, and connect to the signal that carries the errors of tasks."""
        self._run(register(self._sql, self._process))
        task_finished.connect(self._record_error)

    def close(self) -> None:
        """Release what a cancellation left claimed, and deregister."""
        task_finished.disconnect(self._record_error)
        self._leave_savepoints()
        if claims := self._run(find_process_claims(self._sql, self._process.id)):
            self._run(release_claims(self._sql, claims, WORKER_NAME, limits_in_force))
        self._run(deregister(self._sql, self._process.id))

    def take(self) -> Claim | None:
        """Claim the job to run next; returns None when none is left."""
        while True:
            self._make_ready()
            self._running = self._claim()
            if self._running is not None and (refused := refuse_expired(self._running)) is not None:
                self.end(refused)
                continue
            if self._running is not None:
                # Savepoints, not `atomic`: a task may use `atomic(durable=True)`, as it may outside of tests.
                joined = [each for each in connections.all(initialized_only=True) if each.in_atomic_block]
                self._savepoints = [(each, name) for each in joined if (name := each.savepoint())]
                return self._running
            if self._including_scheduled is False or not self._bring_forward():
                return None

    def call(self, claimed: Claim) -> Ending:
        """Call the task in this thread, in a context of its own, with the language and time zone of its enqueuer."""
        translation.deactivate()
        timezone.deactivate()
        # Not run_sync, which closes stale connections and so would roll back the test's own transaction.
        return self._executor.run_here(TaskControl(claimed, joins_transaction=True))

    async def acall(self, claimed: Claim) -> Ending:
        """Await the task in the running loop; the async form of `call`."""
        translation.deactivate()
        timezone.deactivate()
        me = asyncio.current_task()
        control = TaskControl(claimed, joins_transaction=True)
        return await self._executor.run_async(control, lambda _: me is not None and me.cancelling() > 0)

    def end(self, ended: Ending) -> None:
        """Settle the job and keep its result; with `raising`, raises the error of the task."""
        raised, self._raised = self._raised, None
        broken = self._leave_savepoints()
        if broken is not None and isinstance(ended, Finished):
            # The task caught an error that had broken the transaction: its writes are lost, here if not in a worker.
            ended, raised = Failed(ended.claim, report_of(broken)), broken
        if reports := self._reports.take():
            self._run(write_reports(self._sql, reports))
        if not isinstance(ended, Completed):
            preserve = steady_queue.preserve_finished_jobs
            self._run(settle(self._sql, [ended], process_name=WORKER_NAME, preserve=preserve, limits=limits_in_force))
        self.results.append(self._result(ended))
        if raised is not None and (self._raising or isinstance(raised, KeyboardInterrupt)):
            raise raised

    def _result(self, ended: Ending) -> TaskResult[Any]:
        if found := self._run(find_jobs(self._sql, [ended.claim.job_id])):
            return results.of_record(found[0])
        result = results.of_claim(ended.claim, registry.resolve(ended.claim.task_path), WORKER_NAME)
        # Finished jobs are not preserved.
        return results.conclude(result, ended) if isinstance(ended, (Finished, Completed)) else result

    def _record_error(self, *, task_result: TaskResult[Any], **_: Any) -> None:
        # The signal of a failure is sent while its exception is being handled.
        if self._running is not None and task_result.id == str(self._running.job_id):
            self._raised = sys.exception()

    def _make_ready(self) -> None:
        """Do the work of dispatcher and commit: due jobs become ready, blocked ones get slots."""
        self._run(dispatch(self._sql, BATCH_ROWS, limits_in_force))
        blocked = Job.objects.using(self._alias).filter(blocked_execution__isnull=False).order_by("pk")
        if jobs := [NewJob._make(row) for row in blocked.values_list(*NewJob._fields)]:
            self._run(admit(self._sql, jobs, limits_in_force))

    def _claim(self) -> Claim | None:
        """Claim the first ready job of both lanes; a claim by itself would compare the jobs of one lane only."""
        if (first := self._first_ready()) is None:
            return None
        if len(self.results) >= self._at_most:
            last = ", ".join(dict.fromkeys(result.task.module_path for result in self.results[-10:]))
            raise RuntimeError(
                f"{WORKER_NAME} has run {self._at_most} tasks (at_most) and more are waiting; the last were {last}"
            )
        queue, lane = first
        claims = self._run(claim(self._sql, ClaimRequest(self._process.id, Lane(lane), 1, [queue])))
        return claims[0] if claims else None  # another worker has claimed it

    def _first_ready(self) -> tuple[str, int] | None:
        paused = Pause.objects.using(self._alias).values("pk")
        ready = ReadyExecution.objects.using(self._alias).exclude(queue_name__in=paused).order_by("-priority", "pk")
        rows = ready.values_list("queue_name", "lane")
        if self._queues.takes_all:
            return rows.first()
        names = self._run(find_queue_names(self._sql))
        return next((row for name in self._queues.expand(names) if (row := rows.filter(queue_name=name).first())), None)

    def _bring_forward(self) -> bool:
        """Make the earliest scheduled jobs due, if they may run; the jobs themselves keep their `scheduled_at`."""
        scheduled = ScheduledExecution.objects.using(self._alias)
        rows = scheduled.values_list("pk", "scheduled_at", "job__queue_name")
        # A job that is retried is due so much later than its row says as it was brought forward before.
        waiting = {pk: at + self._ahead.get(pk, NOT_AHEAD) for pk, at, name in rows if self._queues.serves(name)}
        if not waiting:
            return False
        first_at = min(waiting.values())
        earliest = [pk for pk, at in waiting.items() if at == first_at]
        due_at = self._run(find_jobs(self._sql, earliest[:1]))[0].due_at or datetime.now(UTC)
        ahead = due_at + self._ahead.get(earliest[0], NOT_AHEAD) - datetime.now(UTC)
        if isinstance(self._including_scheduled, timedelta) and ahead > self._including_scheduled:
            return False
        self._ahead |= dict.fromkeys(earliest, max(ahead, NOT_AHEAD))
        long_ago = datetime(2000, 1, 1, tzinfo=UTC if settings.USE_TZ else None)
        return bool(scheduled.filter(pk__in=earliest).update(scheduled_at=long_ago))

    def _leave_savepoints(self) -> DatabaseError | None:
        """Release the savepoints, or roll back to them where the task broke the transaction; returns the error."""
        broken = None
        while self._savepoints:
            connection, savepoint = self._savepoints.pop()
            try:
                connection.savepoint_commit(savepoint)
            except DatabaseError as error:
                broken = error
                connection.needs_rollback = False
                connection.savepoint_rollback(savepoint)
        return broken
