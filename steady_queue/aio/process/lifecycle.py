"""Lifecycle: calls the hooks of what runs in a process, and sends its signals, at the three moments of its life.

Starting may take as long as it likes, and ends when a stop is asked for. The hooks of a stop have `shutdown_timeout`
from then on, all together, and run beside the tasks that are left; those of the exit what remains of it; both a moment
at least. A hook that is not ready by then is left behind: its thread is a daemon.

Actors: what runs in a process, as hooks and signals are told of it.
"""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from anyio import CancelScope, current_time

import steady_queue
from steady_queue import events, hooks, signals
from steady_queue.aio.orm_threads.pool import OrmThreads
from steady_queue.events.base import name_of
from steady_queue.hooks import Actor
from steady_queue.store.outcome import report_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from django.dispatch import Signal

    from steady_queue.configuration import Options
    from steady_queue.events import Events
    from steady_queue.hooks import HookPoint, Kind
    from steady_queue.store.operations.processes import NewProcess

#: What the hooks of the exit have at least, and after a QUIT, in seconds.
EXIT_WITHIN, QUIT_WITHIN = 1.0, 0.25
#: What those of the stop have at least, and after a QUIT, in seconds.
HURRY = 0.5


class Lifecycle:
    """Each moment comes once; without a start there is no stop and no exit."""

    def __init__(self, actors: Sequence[Actor], *, events: Events) -> None:
        self.actors = actors
        self._events = events
        self._has_begun = self._has_stopped = self._has_ended = False
        self._until = inf
        self._at_least = EXIT_WITHIN
        #: Until when the hooks of the present moment may go on: that may come nearer while they run.
        self._deadline: Callable[[], float] = lambda: inf
        self._scope = CancelScope()
        self._begun: list[asyncio.Task[BaseException | None] | Future[Any]] = []

    @property
    def is_left_with_hooks(self) -> bool:
        """Whether a hook goes on although its time is over: the loop or the interpreter would wait at its end."""
        return not all(call.done() for call in self._begun) or hooks.reporter.is_busy

    # -- the moments --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._has_begun = True
        await self._call("on_start", signals.process_started, lambda: inf)

    async def stop(self) -> None:
        if self._has_begun and not self._has_stopped:
            self._has_stopped = True
            latest = _from_now()
            await self._call("on_stop", None, lambda: min(self._until, latest))

    async def exit(self, error: Exception | None = None) -> None:
        if self._has_begun and not self._has_ended:
            self._has_ended = True
            begun, latest = current_time(), _from_now()

            def until() -> float:
                return max(min(self._until, latest), begun + self._at_least)

            await self._call("on_exit", signals.process_stopped, until, error=None if error is None else alone(error))
        if hooks.reporter.is_busy:
            with CancelScope(deadline=current_time() + self._at_least):
                await asyncio.to_thread(hooks.reporter.flush, self._at_least)

    async def restarted(self, **fields: Any) -> None:
        """Tell that these actors, of another process, have a successor."""
        until = max(_from_now(), current_time() + EXIT_WITHIN)
        await self._call(None, signals.process_restarted, lambda: until, **fields)

    # -- told from outside --------------------------------------------------------------------------------------------

    def allow(self, seconds: float) -> None:
        """A stop was asked for: the hooks of its moments have so long, or less if less was said before."""
        self._until = min(self._until, current_time() + max(seconds, HURRY))
        self._scope.deadline = min(self._scope.deadline, self._deadline())

    def hurry(self) -> None:
        """The same, and at once."""
        self._at_least = QUIT_WITHIN
        self.allow(HURRY)

    # -- calling ------------------------------------------------------------------------------------------------------

    async def _call(self, moment: str | None, signal: Signal | None, until: Callable[[], float], **fields: Any) -> None:
        calls = list(self._calls(moment, signal, fields))
        if not calls:
            return
        # A thread, and so database connections, of their own: a hook that hangs is in nobody's way.
        threads = OrmThreads(1, events=self._events, name="steady-queue-hooks")
        await threads.open()
        self._deadline = until
        try:
            for number, (where, call) in enumerate(calls):
                with CancelScope(deadline=until()) as self._scope:
                    await self._one(where, call, threads)
                if self._scope.cancelled_caught:
                    left_out = f", and {len(calls) - number - 1} others were not called" if calls[number + 1 :] else ""
                    error = TimeoutError(f"it was not ready in time and is left behind{left_out}")
                    self._tell(where, error)
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

    async def _one(self, where: str, call: Callable[[], Any], threads: OrmThreads) -> None:
        session, context = threads.begin(lambda: where)
        task = asyncio.get_running_loop().create_task(self._carried_out(call, threads), context=context)
        self._begun.append(task)
        try:
            # Not awaited itself: one that ignores its cancellation would be waited for.
            await asyncio.wait([task])
        finally:
            task.cancel()
            threads.end(session)
        # Whoever waits is still here: this was no cancellation of ours.
        error = asyncio.CancelledError("it has cancelled its own task") if task.cancelled() else task.result()
        if error is not None:
            self._tell(where, error)

    async def _carried_out(self, call: Callable[[], Any], threads: OrmThreads) -> BaseException | None:
        """Call it, and return what it raised: some exceptions would end the loop."""
        try:
            if _is_async(call):
                answer = call()
            else:
                called: Future[tuple[Any, BaseException | None]] = threads.submit(_attempted, call)
                self._begun.append(called)
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

    def _tell(self, where: str, error: BaseException) -> None:
        self._events.emit(events.RuntimeFault(where=where, error=report_of(error).traceback, exception=error))


def _attempted(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What it returned and what it raised: no future of a loop can carry a StopIteration."""
    try:
        return call(), None
    except BaseException as error:
        return None, error


def _is_async(call: Callable[[], Any]) -> bool:
    function = call.func if isinstance(call, partial) else call
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def alone(error: Exception) -> Exception:
    """The error itself, without the task groups that it has left."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _from_now() -> float:
    return current_time() + max(steady_queue.shutdown_timeout.total_seconds(), HURRY)


def actors_of(options: Options, process: NewProcess) -> Iterator[Actor]:
    """The workers, dispatchers and the scheduler that a process with these options runs."""

    def actor(kind: Kind, _queues: tuple[str, ...] = (), /, **metadata: Any) -> Actor:
        return actor_of(kind, process, _queues, **metadata)

    for worker in options.workers:
        yield actor(
            "worker",
            tuple(worker.queues),
            queues=",".join(worker.queues),
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
