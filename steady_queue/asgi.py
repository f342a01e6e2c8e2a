"""The runtime inside an ASGI server: `application = SteadyQueue(get_asgi_application())`.

Django's application refuses the server's lifespan, so this module answers it: the startup starts the runtime in the
event loop of the server, the shutdown shuts it down. Signals are left to the server, and requests are not changed.

A server whose runtime has failed looks healthy from outside, while tasks pile up. So the default of `on_death` ends the
server: the process manager restarts it with its runtime, and a process that was pruned does not run a task twice.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from anyio import CancelScope, create_task_group, move_on_after

from steady_queue.aio.embedding import describe_start, log_version, prepare, wait_for_start
from steady_queue.aio.process.lifecycle import unwrap
from steady_queue.aio.process.watchdog import EXIT_FORCED
from steady_queue.db import loop_connections
from steady_queue.errors import ConfigurationError, SteadyQueueError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from steady_queue.aio.process.process import Process
    from steady_queue.configuration import Options

    Phase: TypeAlias = Literal["startup", "shutdown"]
    Message: TypeAlias = dict[str, Any]
    Receive: TypeAlias = Callable[[], Awaitable[Any]]
    Send: TypeAlias = Callable[[Any], Awaitable[object]]
    Application: TypeAlias = Callable[[Any, Any, Any], Awaitable[object]]
    OnDeath: TypeAlias = Literal["exit", "ignore"] | Callable[[Exception], object]

logger = logging.getLogger("steady_queue")

#: How long the startup waits for the runtime: long enough for a database that is started together with the server, and
#: not as long as a database that is really down would take.
READY_SECONDS = 5.0
#: How long requests may go on when the server ends because the runtime has failed.
EXIT_SECONDS = 30.0


class SteadyQueue:
    """An ASGI application that runs tasks in the process of the application that it wraps.

    `options` and `parts` are those of `steady_queue.aio.running`. `on_death` says what the server does when the runtime
    fails, or when its lease is lost while a task runs that cannot be stopped:

    - "exit": it exits with status 75. After a failure requests may finish first; with such a task it exits at once.
    - "ignore": the error is logged, and the server goes on.
    - a function: it is called with the error, and the server goes on. It is called in the event loop, but in a thread
      when a task blocks the loop.

    After `ready_within` seconds the server begins to serve even if the database does not answer yet.
    """

    def __init__(
        self,
        app: Application,
        options: Options | None = None,
        *,
        on_death: OnDeath = "exit",
        ready_within: float = READY_SECONDS,
        **parts: Any,
    ) -> None:
        if on_death not in ("exit", "ignore") and not callable(on_death):
            raise ConfigurationError(f'on_death must be "exit", "ignore" or a function, not {on_death!r}')
        if "leave" in parts:
            raise ConfigurationError("on_death takes the place of leave")
        #: The runtime, once the server has started it.
        self.process: Process | None = None
        self._app = app
        self._options = options
        self._on_death = on_death
        self._ready_within = ready_within
        self._parts = parts
        self._has_lifespan = False
        self._has_warned = False

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        if not self._has_lifespan and not self._has_warned:
            self._has_warned = True
            logger.error(
                "TASKS DO NOT RUN IN THIS PROCESS: the server has sent a request, but no lifespan startup before it. "
                "They are stored, and wait for a process that runs them: manage.py steady_queue. To run tasks in the "
                "server, switch its lifespan on (uvicorn: --lifespan on; gunicorn: --asgi-lifespan on), or use a "
                "server that has one (uvicorn, Hypercorn, gunicorn, Granian; not Daphne)"
            )
        await self._app(scope, receive, send)

    async def _live(self, scope: Any, receive: Receive, send: Send) -> None:
        """From the server's startup to its shutdown. The wrapped application starts first and stops last."""
        await receive()
        self._has_lifespan = True
        runtime = _Runtime(self._on_death)
        phase: Phase = "startup"
        async with create_task_group() as group:
            wrapped = _Wrapped(self._app, scope)
            group.start_soon(wrapped.run)
            try:
                problem = await wrapped.ask("startup")
                if problem is None:
                    problem = await runtime.start(group, self._ready_within, self._options, self._parts)
                    if problem is not None:
                        await wrapped.ask("shutdown")
                if problem is None:
                    await send(_answer("startup", None))
                    self.process = runtime.process
                    await receive()
            finally:
                # If the lifespan is cancelled instead, the group waits for the shutdown.
                runtime.stop()
            if problem is None:
                phase = "shutdown"
                await runtime.ended.wait()
                problem = await wrapped.ask("shutdown") or runtime.problem
            group.cancel_scope.cancel()
        # The asgi worker of gunicorn does not close the async generators of its loop, and so not these connections.
        await loop_connections.close()
        runtime.end_server()
        # The answer is sent last, outside of the group: Hypercorn cancels a lifespan that has answered and goes on, and
        # logs its CancelledError with a traceback. If the answer is a failure, Hypercorn raises its own error here.
        await send(_answer(phase, problem))


class _Runtime:
    """The runtime of one lifespan, and what happens to the server if it fails."""

    def __init__(self, on_death: OnDeath) -> None:
        self.process: Process | None = None
        self.ended = asyncio.Event()
        self._ends_server = False
        self._on_death = on_death
        self._error: Exception | None = None
        self._is_serving = False
        self._has_reported = False
        self._lost_until: float | None = None

    async def start(
        self, group: TaskGroup, ready_within: float, options: Options | None, parts: dict[str, Any]
    ) -> str | None:
        """Start it; returns why it cannot be started, but None if only its database cannot be reached."""
        try:
            self.process = process = prepare(options, leave=self._lease_lost, **parts)
        except Exception as error:
            self._failed(error)
            return self.problem
        group.start_soon(self._run, process)
        group.start_soon(self._report_start, process)
        with move_on_after(ready_within):
            await process.ready.wait()
        if process.start_problem is not None:
            await self.ended.wait()
        if self._error is not None:
            return self.problem
        if not process.ready.is_set():
            logger.warning(
                "the queue was not ready within %g s: the server starts without it; tasks run as soon as it is",
                ready_within,
            )
        self._is_serving = True
        return None

    def stop(self) -> None:
        self._is_serving = False
        if self.process is not None:
            self.process.stop()

    def end_server(self) -> None:
        """Exit if the runtime has failed and `on_death` is "exit"; requests have ended by now."""
        if self._ends_server:
            logging.shutdown()
            os._exit(EXIT_FORCED)

    @property
    def problem(self) -> str | None:
        """Why it has failed, or could not start."""
        return None if self._error is None else f"Steady Queue: {type(self._error).__name__}: {self._error}"

    async def _report_start(self, process: Process) -> None:
        if await wait_for_start(process):
            log_version()
            self._has_reported = True
            _print_unless_logged(describe_start(process))

    async def _run(self, process: Process) -> None:
        # Shielded: a lifespan that is cancelled cancels its group, and running tasks must be shut down all the same.
        with CancelScope(shield=True):
            try:
                await process.run()
                error: Exception | None = process.start_problem
            except Exception as failure:
                error = unwrap(failure)
        if error is not None:
            self._failed(error)
        elif self._has_reported:
            running = f"; {process.abandoned} tasks could not be stopped" if process.abandoned else ""
            _print_unless_logged(f"Steady Queue has stopped in process {os.getpid()}{running}")
        self.ended.set()

    def _failed(self, error: Exception) -> None:
        self._error = error
        if self._is_serving:
            self._died(error)
        elif not isinstance(error, ConfigurationError):
            # The server logs the text of an error, but no traceback.
            logger.error("the queue has failed", exc_info=error)

    def _died(self, error: Exception) -> None:
        logger.critical("the queue has failed: no tasks run in this process any more", exc_info=error)
        if self._on_death == "exit":
            # The graceful stop of the server lets requests finish, and then sends the lifespan's shutdown.
            self._ends_server = True
            asyncio.get_running_loop().call_later(EXIT_SECONDS, os._exit, EXIT_FORCED)
            signal.raise_signal(signal.SIGTERM)
        else:
            self._call_on_death(error)

    def _lease_lost(self, status: int) -> None:
        """The lease is lost while a task cannot be stopped. Acts once per loss; called by the loop or the watchdog."""
        assert self.process is not None
        lease = self.process.services.lease
        if self._lost_until == lease.expires_at:
            return
        self._lost_until = lease.expires_at
        error = SteadyQueueError(
            f"the lease of this process is lost, {lease.seconds_since_heartbeat:.0f} s after its last heartbeat,"
            " while a task runs that cannot be stopped"
        )
        logger.critical("%s", error)
        if self._on_death == "exit":
            os._exit(status)
        self._call_on_death(error)

    def _call_on_death(self, error: Exception) -> None:
        if callable(self._on_death):
            try:
                self._on_death(error)
            except Exception:
                logger.exception("on_death has failed")


class _Wrapped:
    """The wrapped application's lifespan. As for servers, it has none if it raises or returns without an answer."""

    def __init__(self, app: Application, scope: Any) -> None:
        self._app = app
        self._scope = scope
        self._asked: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: asyncio.Queue[Message] = asyncio.Queue()
        self._has_started = False
        self._has_ended = False

    async def run(self) -> None:
        try:
            await self._app(self._scope, self._asked.get, self._answers.put)
        except Exception as error:
            if self._has_started:
                logger.exception("the application has left its lifespan")
                self._answers.put_nowait(_answer("shutdown", str(error)))
        self._has_ended = True
        self._answers.put_nowait({"type": "none"})

    async def ask(self, phase: Phase) -> str | None:
        """Send the phase to the application and wait for its end; returns the problem that it reports."""
        if self._has_ended and self._answers.empty():
            return None
        self._asked.put_nowait({"type": f"lifespan.{phase}"})
        answer = await self._answers.get()
        self._has_started = answer["type"] == "lifespan.startup.complete"
        if answer["type"] == f"lifespan.{phase}.failed":
            return str(answer.get("message", "")) or f"the application's {phase} has failed"
        return None


def _print_unless_logged(line: str) -> None:
    """Print a line if logging is not configured for Steady Queue: then Python prints warnings, but no information."""
    if not logger.hasHandlers():
        sys.stderr.write(f"{line}\n")


def _answer(phase: Phase, problem: str | None) -> Message:
    if problem is None:
        return {"type": f"lifespan.{phase}.complete"}
    return {"type": f"lifespan.{phase}.failed", "message": problem}
