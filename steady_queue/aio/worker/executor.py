"""Executes one claimed job and returns what became of it.

Looking up the task, restoring its arguments and calling it are inside one `try`: nothing that a row or a task does can
leave a claim behind. The only exception that passes is a cancellation by the slots.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync, sync_to_async
from django.utils import timezone, translation

from steady_queue import arguments
from steady_queue.aio.orm_threads.connections import thread_connections
from steady_queue.errors import TransactionLeftOpen
from steady_queue.jobs import results
from steady_queue.jobs.compat import TaskContext, task_backends, task_finished, task_started
from steady_queue.jobs.task import lane_of
from steady_queue.jobs.task_signals import FAILURE, asend, is_heard, send
from steady_queue.jobs.task_signals import is_logged as is_logged_by_framework
from steady_queue.store.job import Lane
from steady_queue.store.outcome import Failed, Finished, report_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.aio.orm_threads.connections import ThreadConnections
    from steady_queue.aio.orm_threads.session import OrmSession
    from steady_queue.jobs.compat import BaseTaskBackend, Task, TaskResult
    from steady_queue.jobs.registry import Registry
    from steady_queue.store.job import Claim

    Ended = Finished | Failed


class Executor:
    """Runs tasks of claimed jobs, in the event loop or in the calling thread."""

    def __init__(self, *, registry: Registry, worker_id: str) -> None:
        self.registry = registry
        self.worker_id = worker_id
        self._senders: dict[str, type[BaseTaskBackend]] = {}

    async def run_async(
        self, claim: Claim, was_stopped: Callable[[Claim], bool], session: OrmSession | None = None
    ) -> Ended:
        """Await the task in the running loop; it must have been given a context of its own, and its ORM session."""
        result: TaskResult[Any] | None = None
        try:
            task = self.registry.resolve(claim.task_path)
            args, kwargs = await arguments.aloads(claim.arguments)
            result = self._result_for_start(claim, task)
            if result is not None:
                await asend(task_started, self._sender(claim.backend), [result])
            if claim.headers is not None:
                _assume(claim.headers)
            if task.takes_context and result is not None:
                args = [TaskContext(task_result=result), *args]
            # A function that was async when it was enqueued may be sync by now.
            is_async = lane_of(task.func) is Lane.ASYNC
            call = task.func if is_async else sync_to_async(_contained(task.func), thread_sensitive=True)
            value = await call(*args, **kwargs)
            if session is not None and (alias := session.open_transaction) is not None:
                raise TransactionLeftOpen(alias)
            ended: Ended = Finished(claim, None if value is None else arguments.dump_result(value))
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and was_stopped(claim):
                raise
            if session is not None:
                await session.release_thread()  # what receivers of the signal write must not be rolled back with it
            result = result or self._result_for_end(claim, FAILURE)
            ended = self._failed(claim, error, is_signal_sent=result is not None)
            # Inside the handler: the framework logs the exception that is being handled.
            if result is not None:
                await self._tell_finished(result, ended)
            return ended
        result = result or self._result_for_end(claim)
        if result is not None:
            await self._tell_finished(result, ended)
        return ended

    async def _tell_finished(self, result: TaskResult[Any], ended: Ended) -> None:
        level = FAILURE if isinstance(ended, Failed) else None
        with suppress(asyncio.CancelledError):  # the task is over: a stop that comes now must not give it back
            await asend(task_finished, self._sender(ended.claim.backend), [results.concluded(result, ended)], level)

    def run_sync(self, claim: Claim) -> Ended:
        """Call the task in this thread, with the database connections tidied before and after."""
        connections = thread_connections()
        connections.close_unless_kept()
        connections.replace_dead()
        try:
            return self.run_here(claim, connections)
        finally:
            connections.release()
            connections.close_unless_kept()

    def run_here(self, claim: Claim, connections: ThreadConnections | None = None) -> Ended:
        """Call the task in this thread. Without `connections`, it may be in a transaction of its caller."""
        result: TaskResult[Any] | None = None
        try:
            task = self.registry.resolve(claim.task_path)
            args, kwargs = arguments.loads(claim.arguments)
            result = self._result_for_start(claim, task)
            if result is not None:
                send(task_started, self._sender(claim.backend), [result])
            if claim.headers is not None:
                _assume(claim.headers)
            if task.takes_context and result is not None:
                args = [TaskContext(task_result=result), *args]
            is_async = lane_of(task.func) is Lane.ASYNC
            call: Callable[..., Any] = async_to_sync(task.func) if is_async else task.func
            value = call(*args, **kwargs)
            if connections is not None and (alias := connections.open_transaction()) is not None:
                raise TransactionLeftOpen(alias)
            ended: Ended = Finished(claim, None if value is None else arguments.dump_result(value))
        except BaseException as error:
            if connections is not None:
                connections.release()  # what receivers of the signal write must not be rolled back with it
            result = result or self._result_for_end(claim, FAILURE)
            ended = self._failed(claim, error, is_signal_sent=result is not None)
            if result is not None:
                send(task_finished, self._sender(claim.backend), [results.concluded(result, ended)], FAILURE)
            return ended
        result = result or self._result_for_end(claim)
        if result is not None:
            send(task_finished, self._sender(claim.backend), [results.concluded(result, ended)])
        return ended

    def _result_for_start(self, claim: Claim, task: Task[..., Any]) -> TaskResult[Any] | None:
        """The result, if the task takes a context or `task_started` has a listener.

        It costs as much as a small task.
        """
        if task.takes_context or is_heard(task_started, self._sender(claim.backend)):
            return results.of_claim(claim, task, self.worker_id)
        return None

    def _result_for_end(self, claim: Claim, level: int | None = None) -> TaskResult[Any] | None:
        """The result of a job that has ended, if `task_finished` has a listener.

        None if its task or arguments cannot be loaded.
        """
        try:
            if is_heard(task_finished, self._sender(claim.backend), level):
                return results.of_claim(claim, self.registry.resolve(claim.task_path), self.worker_id)
        except BaseException:
            # Whatever made the job fail (a module that cannot be imported, say) may happen again here.
            return None
        return None

    def _failed(self, claim: Claim, error: BaseException, *, is_signal_sent: bool) -> Failed:
        """The failure, with whether the task could be loaded and whether the framework logs it."""
        try:
            self.registry.resolve(claim.task_path)
            # Raises if the arguments cannot be loaded.
            arguments.view_text(claim.arguments)
            is_logged = is_signal_sent and is_logged_by_framework(task_finished, self._sender(claim.backend), FAILURE)
        except BaseException:
            return Failed(claim, report_of(error))
        return Failed(claim, report_of(error), is_loadable=True, is_logged=is_logged)

    def _sender(self, alias: str) -> type[BaseTaskBackend]:
        sender = self._senders.get(alias)
        if sender is None:
            sender = self._senders[alias] = type(task_backends[alias])
        return sender


def _contained(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for a thread whose answer is awaited: no future of a loop can carry a StopIteration."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError("the task raised StopIteration") from error

    return call


def _assume(headers: str) -> None:
    """Take on the enqueuer's language and time zone, for this context alone."""
    wanted: dict[str, Any] = json.loads(headers)
    if "locale" in wanted:
        if wanted["locale"] is None:
            translation.deactivate_all()
        else:
            translation.activate(wanted["locale"])
    if "timezone" in wanted:
        zone = wanted["timezone"]
        timezone.activate(timezone.get_fixed_timezone(zone) if isinstance(zone, int) else zone)
