"""Executor: runs one claimed job and returns its outcome.

Looking up the task, restoring its arguments and calling it are inside one `try`: every claim ends, no matter what a row
holds or a task raises. The only exception that passes is a cancellation by `Capacity`.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation

from steady_queue import arguments
from steady_queue.aio.orm_threads.connections import thread_connections
from steady_queue.aio.worker.control.timed_calls import call_with_timeout, set_deadline
from steady_queue.aio.worker.observed_results import ObservedResults
from steady_queue.errors import TransactionLeftOpen
from steady_queue.jobs.compat import task_finished, task_started
from steady_queue.jobs.definition.policy import Policies
from steady_queue.jobs.definition.task import lane_of
from steady_queue.jobs.enqueueing.caller_locale import activate
from steady_queue.jobs.running.completion import ignoring, run_transactional
from steady_queue.jobs.running.context import NO_SERVICES, TaskContext
from steady_queue.jobs.running.retries import as_cancelled, decide
from steady_queue.jobs.task_signals import FAILURE_LEVEL, asend, send
from steady_queue.jobs.task_signals import is_logged as is_logged_by_framework
from steady_queue.store.job import FailureKind, Lane
from steady_queue.store.outcome import Completed, Failed, Finished, report_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.aio.orm_threads.connections import ThreadConnections
    from steady_queue.aio.orm_threads.session import OrmSession
    from steady_queue.aio.worker.control.timed_calls import WatchDeadline
    from steady_queue.jobs.compat import Task, TaskResult
    from steady_queue.jobs.registry import Registry
    from steady_queue.jobs.running.context import ContextServices, TaskControl
    from steady_queue.jobs.running.retries import Decision
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Ending

#: Added to the error of an async task that used the sync ORM.
ASYNC_ORM = "In an async task, use the async methods of the ORM (await Model.objects.aget(...)), or sync_to_async."


class Executor:
    """Runs the tasks of claimed jobs, in the event loop or in the calling thread."""

    def __init__(
        self,
        *,
        registry: Registry,
        process_name: str,
        watch_deadline: WatchDeadline,
        services: ContextServices = NO_SERVICES,
    ) -> None:
        self.registry = registry
        self.process_name = process_name
        self._watch_deadline = watch_deadline
        self._services = services
        self._policies = Policies()
        self._observed = ObservedResults(registry, process_name)

    async def run_async(
        self, control: TaskControl, was_stopped: Callable[[TaskControl], bool], session: OrmSession | None = None
    ) -> Ending:
        """Await the task in the running loop, in the context and with the ORM session that were made for it."""
        claim = control.claim
        result: TaskResult[Any] | None = None
        try:
            task = self.registry.resolve(claim.task_path)
            args, kwargs = await arguments.aloads(claim.arguments)
            result = self._observed.at_start(claim, task)
            if result is not None:
                await asend(task_started, self._observed.sender(claim.backend), [result])
            if result is not None or claim.headers is not None:
                args = self._prepare(control, task, args, result)
            # A function that was async when it was enqueued may be sync by now.
            is_async = lane_of(task.func) is Lane.ASYNC
            call = task.func if is_async else sync_to_async(self._as_sync(control, task), thread_sensitive=True)
            seconds = self._policies.of_claim(claim, task).timeout_seconds
            if seconds is None:
                value = await call(*args, **kwargs)
            else:
                timed = partial(call, *args, **kwargs)
                value = await call_with_timeout(control, seconds, timed, self._watch_deadline, session)
            control.has_ended = True
            success = _build_success(control, value, None if session is None else session.open_transaction)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and was_stopped(control):
                raise
            control.has_ended = True
            if session is not None:
                await _release_thread(control, session)
            if control.completed is None:
                ended, result = self._fail(control, error, result)
                if result is not None:
                    # Inside the handler: the framework logs the exception that is being handled.
                    await self._asend_finished(claim, result, FAILURE_LEVEL)
                return ended
            success = ignoring(control.completed, error)
        result = self._observed.at_end(success, result)
        if result is not None:
            await self._asend_finished(claim, result)
        return success

    def _prepare_call(self, control: TaskControl, task: Task[..., Any], seconds: float | None) -> Callable[..., Any]:
        """Return what calls the task in this thread. The time of a sync function begins now."""
        if lane_of(task.func) is not Lane.ASYNC:
            if seconds is not None:
                set_deadline(control, seconds, self._watch_deadline)
            return task.func
        if seconds is None:
            return async_to_sync(task.func)

        async def call(*args: Any, **kwargs: Any) -> Any:
            timed = partial(task.func, *args, **kwargs)
            return await call_with_timeout(control, seconds, timed, self._watch_deadline)

        return async_to_sync(call)

    def run_sync(self, control: TaskControl) -> Ending:
        """Call the task in this thread; before and after it, close database connections that cannot be kept."""
        connections = thread_connections()
        connections.close_unless_kept()
        connections.replace_dead()
        try:
            return self.run_here(control, connections)
        finally:
            connections.release()
            connections.close_unless_kept()

    def run_here(self, control: TaskControl, connections: ThreadConnections | None = None) -> Ending:
        """Call the task in this thread. Without `connections`, it may be in a transaction of its caller."""
        claim = control.claim
        result: TaskResult[Any] | None = None
        try:
            task = self.registry.resolve(claim.task_path)
            args, kwargs = arguments.loads(claim.arguments)
            result = self._observed.at_start(claim, task)
            if result is not None:
                send(task_started, self._observed.sender(claim.backend), [result])
            if result is not None or claim.headers is not None:
                args = self._prepare(control, task, args, result)
            policy = self._policies.of_claim(claim, task)
            call = self._prepare_call(control, task, policy.timeout_seconds)
            if policy.transactional:
                success = run_transactional(
                    control, self.process_name, partial(call, *args, **kwargs), _checker_of(connections)
                )
            else:
                value = call(*args, **kwargs)
                open_transaction = None if connections is None else connections.open_transaction()
                success = _build_success(control, value, open_transaction)
        except BaseException as error:
            if connections is not None:
                connections.release()  # writes of the signal's receivers must not be rolled back with the task
            if control.completed is None:
                ended, result = self._fail(control, error, result)
                if result is not None:
                    send(task_finished, self._observed.sender(claim.backend), [result], FAILURE_LEVEL)
                return ended
            success = ignoring(control.completed, error)
        result = self._observed.at_end(success, result)
        if result is not None:
            send(task_finished, self._observed.sender(claim.backend), [result])
        return success

    def _as_sync(self, control: TaskControl, task: Task[..., Any]) -> Callable[..., Any]:
        """Return the function of a sync task that was enqueued for the event loop."""
        if not getattr(task, "transactional", False):
            return _contain(task.func)

        def call(*args: Any, **kwargs: Any) -> None:
            function = partial(_contain(task.func), *args, **kwargs)
            run_transactional(control, self.process_name, function, only_if_used=False)

        return call

    async def _asend_finished(self, claim: Claim, result: TaskResult[Any], level: int | None = None) -> None:
        with suppress(asyncio.CancelledError):  # the task has ended: a shutdown that comes now must not release it
            await asend(task_finished, self._observed.sender(claim.backend), [result], level)

    def _fail(
        self, control: TaskControl, error: BaseException, result: TaskResult[Any] | None
    ) -> tuple[Ending, TaskResult[Any] | None]:
        """Return the outcome, and the result to send with `task_finished` if the job has failed for good."""
        claim = control.claim
        if control.cancellation is not None:
            error = as_cancelled(error, control.cancellation)
        if isinstance(error, SynchronousOnlyOperation) and claim.lane == Lane.ASYNC:
            error.add_note(ASYNC_ORM)
        ended = self._decide(claim, error)
        if not isinstance(ended, Failed) or control.is_commit_unknown:
            return ended, None  # after a commit without a reply, the settle shows whether the task has failed
        if control.cancellation is not None:
            ended = replace(ended, kind=FailureKind.CANCELLED)
        result = self._observed.at_end(ended, result, FAILURE_LEVEL)
        if result is not None and ended.is_loadable:
            is_logged = is_logged_by_framework(task_finished, self._observed.sender(claim.backend), FAILURE_LEVEL)
            ended = replace(ended, is_logged=is_logged)
        return ended, result

    def _decide(self, claim: Claim, error: BaseException) -> Decision:
        """Return the outcome by the policy of the task; a job whose task or arguments cannot be loaded has failed."""
        try:
            task = self.registry.resolve(claim.task_path)
            # Raises if the arguments cannot be loaded.
            arguments.view_text(claim.arguments)
            policy = self._policies.of_claim(claim, task)
        except BaseException:
            return Failed(claim, report_of(error))
        decided = decide(policy, claim, error, task, self.process_name)
        return replace(decided, is_loadable=True) if isinstance(decided, Failed) else decided

    def _prepare(
        self, control: TaskControl, task: Task[..., Any], args: list[Any], result: TaskResult[Any] | None
    ) -> list[Any]:
        """Activate the enqueuer's language and time zone; returns the arguments, perhaps with a context."""
        if control.claim.headers is not None:
            activate(json.loads(control.claim.headers))
        if task.takes_context and result is not None:
            context = TaskContext(
                task_result=result, control=control, services=self._services, process_name=self.process_name
            )
            return [context, *args]
        return args


def _build_success(control: TaskControl, value: Any, open_transaction: str | None) -> Finished | Completed:
    """Return the success; raises if the task has left a transaction open, or its value cannot be stored."""
    if open_transaction is not None:
        raise TransactionLeftOpen(open_transaction)
    text = None if value is None else arguments.dump_result(value)
    if control.completed is not None:
        is_ignored = text is not None and text != control.completed.value
        return replace(control.completed, ignored="it returned a value") if is_ignored else control.completed
    return Finished(control.claim, text)


def _checker_of(connections: ThreadConnections | None) -> Callable[[str], None]:
    """Return a function that raises if a transaction is open on another database than this one."""

    def check(alias: str) -> None:
        if connections is not None and (other := connections.open_transaction(besides=alias)) is not None:
            raise TransactionLeftOpen(other)

    return check


async def _release_thread(control: TaskControl, session: OrmSession) -> None:
    """Roll back what the task has left open: writes of the signal's receivers must not be rolled back with it."""
    if control.cancellation is not None:
        await session.wait_for_calls()
    await session.release_thread()


def _contain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that is awaited in a thread: the future of an event loop cannot carry a StopIteration."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError("the task raised StopIteration") from error

    return call
