"""Lifecycle: calls the hooks of the actors in a process, and sends their signals, when they start, stop and have ended.

The `on_start` hooks may take as long as they need, and are cancelled when a shutdown is requested. The `on_stop` hooks
together have `shutdown_timeout` from that request on, and run while tasks finish; the `on_exit` hooks have what is left
of it; both have a moment at least (see deadlines.py). A hook that has not returned by then is abandoned: its thread is
a daemon.

Actors: the workers, dispatchers, scheduler or supervisor of a process, as hooks, signals and its row describe them.
"""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anyio import CancelScope, move_on_after

from steady_queue import events, hooks, signals
from steady_queue.aio.orm_threads.pool import OrmThreads
from steady_queue.events.base import name_of
from steady_queue.events.wording import counted
from steady_queue.hooks import Actor
from steady_queue.recurring.definitions import collect_recurrences
from steady_queue.store.outcome import report_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from django.dispatch import Signal

    from steady_queue.aio.process.deadlines import Deadlines, ScopeFactory
    from steady_queue.configuration import Options
    from steady_queue.events import Events
    from steady_queue.hooks import HookPoint, Kind
    from steady_queue.store.operations.processes.registration import NewProcess


class Lifecycle:
    """Calls the hooks of each moment once; without a start there is no stop and no exit."""

    def __init__(self, actors: Sequence[Actor], *, deadlines: Deadlines, events: Events) -> None:
        self.actors = actors
        self._deadlines = deadlines
        self._events = events
        self._has_started = self._has_stopped = self._has_exited = False
        self._calls_made: list[asyncio.Task[BaseException | None] | Future[Any]] = []

    @property
    def has_running_hooks(self) -> bool:
        """Whether a hook runs although its time is over: the event loop or the interpreter would wait for it."""
        return not all(call.done() for call in self._calls_made) or hooks.reporter.is_busy

    # -- the moments --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._has_started = True
        await self._call("on_start", signals.process_started, CancelScope)

    async def stop(self) -> None:
        if self._has_started and not self._has_stopped:
            self._has_stopped = True
            await self._call("on_stop", None, self._deadlines.stop_hooks_limit())

    async def exit(self, error: Exception | None = None) -> None:
        if self._has_started and not self._has_exited:
            self._has_exited = True
            error = None if error is None else unwrap(error)
            await self._call("on_exit", signals.process_stopped, self._deadlines.exit_hooks_limit(), error=error)
        if hooks.reporter.is_busy:
            seconds = self._deadlines.exit_hooks_seconds
            with move_on_after(seconds):
                await asyncio.to_thread(hooks.reporter.flush, seconds)

    async def send_restarted(self, **fields: Any) -> None:
        """Send `process_restarted` for these actors of another process, which was replaced."""
        await self._call(None, signals.process_restarted, self._deadlines.exit_hooks_limit(), **fields)

    # -- calling ------------------------------------------------------------------------------------------------------

    async def _call(self, moment: str | None, signal: Signal | None, limit: ScopeFactory, **fields: Any) -> None:
        calls = list(self._calls(moment, signal, fields))
        if not calls:
            return
        # A thread, and so database connections, of their own: a hook that hangs does not block anything else.
        threads = OrmThreads(1, events=self._events, name="steady-queue-hooks")
        await threads.open()
        try:
            for number, (where, call) in enumerate(calls):
                with limit() as scope:
                    await self._call_one(where, call, threads)
                if scope.cancelled_caught:
                    left = len(calls) - number - 1
                    not_called = f", and {left} more were not called" if left else ""
                    self._emit_fault(where, TimeoutError(f"it did not return in time and was abandoned{not_called}"))
                    return
        finally:
            threads.shutdown()

    def _calls(
        self, moment: str | None, signal: Signal | None, fields: dict[str, Any]
    ) -> Iterator[tuple[str, Callable[[], Any]]]:
        if moment is not None:
            for actor in self.actors:
                registered: HookPoint = getattr(hooks.by_kind[actor.kind], moment)
                for hook in registered.hooks:
                    yield f"the {registered.name} hook {name_of(hook)}", partial(hook, actor)
        if signal is not None and signal.has_listeners(signals.ProcessLifecycle):
            for actor in self.actors:
                yield "a signal", partial(self._send, signal, actor, fields)

    async def _send(self, signal: Signal, actor: Actor, fields: dict[str, Any]) -> None:
        answers = await signal.asend_robust(
            sender=signals.ProcessLifecycle,
            process_kind=actor.kind,
            process_name=actor.name,
            pid=actor.pid,
            hostname=actor.hostname,
            metadata=dict(actor.metadata),
            **fields,
        )
        for fault in signals.receiver_faults(signal, answers):
            self._events.emit(fault)

    async def _call_one(self, where: str, call: Callable[[], Any], threads: OrmThreads) -> None:
        session, context = threads.begin(lambda: where)
        task = asyncio.get_running_loop().create_task(self._run(call, threads), context=context)
        self._calls_made.append(task)
        try:
            # The task itself is not awaited: that would wait for a hook that ignores its cancellation.
            await asyncio.wait([task])
        finally:
            task.cancel()
            threads.end(session)
        # The wait itself was not cancelled: the hook has cancelled its own task.
        error = asyncio.CancelledError("it has cancelled its own task") if task.cancelled() else task.result()
        if error is not None:
            self._emit_fault(where, error)

    async def _run(self, call: Callable[[], Any], threads: OrmThreads) -> BaseException | None:
        """Call it, and return what it raised: some exceptions would end the event loop."""
        try:
            if _is_async(call):
                answer = call()
            else:
                called: Future[tuple[Any, BaseException | None]] = threads.submit(_attempt, call)
                self._calls_made.append(called)
                answer, error = await asyncio.wrap_future(called)
                if error is not None:
                    return error
            if inspect.isawaitable(answer):
                await answer
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return error
        except BaseException as error:
            return error
        return None

    def _emit_fault(self, where: str, error: BaseException) -> None:
        self._events.emit(events.RuntimeFault(where=where, error=report_of(error).traceback, exception=error))


def _attempt(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Return its result and what it raised: an asyncio future cannot carry a StopIteration."""
    try:
        return call(), None
    except BaseException as error:
        return None, error


def _is_async(call: Callable[[], Any]) -> bool:
    function = call.func if isinstance(call, partial) else call
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def unwrap(error: Exception) -> Exception:
    """The error itself, without the exception groups of the task groups that it has left."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def actors_of(options: Options, process: NewProcess) -> Iterator[Actor]:
    """The workers, dispatchers and the scheduler that a process with these options runs."""

    def actor(kind: Kind, _queues: tuple[str, ...] = (), /, **metadata: Any) -> Actor:
        return actor_of(kind, process, _queues, **metadata)

    for worker in options.workers:
        yield actor(
            "worker",
            tuple(worker.queues),
            queues=",".join(worker.queues),
            # Absent if empty: without this option, rows and signals are the same as before there was the option.
            **({"exclude_queues": list(worker.selection.excluded)} if worker.exclude_queues else {}),
            polling_interval=worker.polling_interval.total_seconds(),
            coroutines=worker.coroutines,
            threads=worker.threads,
        )
    for dispatcher in () if options.only_work else options.dispatchers:
        yield actor(
            "dispatcher",
            polling_interval=dispatcher.polling_interval.total_seconds(),
            batch_size=dispatcher.batch_size,
            concurrency_maintenance_interval=dispatcher.concurrency_maintenance_interval.total_seconds(),
        )
    if options.schedules:
        yield actor("scheduler")


def describe_actors(options: Options) -> str:
    """The same for people: `worker (mail; 100 coroutines, 3 threads), dispatcher, scheduler (2 recurring tasks)`."""
    parts = [
        f"worker ({worker.selection}; {counted(worker.coroutines, 'coroutine')}, {counted(worker.threads, 'thread')})"
        for worker in options.workers
    ]
    parts += [] if options.only_work else ["dispatcher"] * len(options.dispatchers)
    if options.schedules:
        parts.append(f"scheduler ({counted(len(collect_recurrences(options)), 'recurring task')})")
    return ", ".join(parts)


def actor_of(kind: Kind, process: NewProcess, _queues: tuple[str, ...] = (), /, **metadata: Any) -> Actor:
    """One of them, or a supervisor, in the process that has this row."""
    return Actor(
        kind=kind,
        name=process.name,
        process_id=process.id,
        pid=process.pid,
        hostname=process.hostname,
        supervisor_id=process.supervisor_id,
        queues=_queues,
        metadata=MappingProxyType(metadata),
    )
