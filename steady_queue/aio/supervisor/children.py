"""Children: the child processes of a supervisor. Each position is kept filled: a child that exits is replaced.

The first replacement starts at once; while children crash soon after their start, each next one starts later. A child
that has sent no message for `process_alive_threshold`, after which maintenance of other processes would prune it, is
killed. The pruner settles the claims of a child that has exited: nothing waits for the database here.
"""

from __future__ import annotations

import asyncio
import os
import signal
from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Any

from steady_queue import events
from steady_queue.aio.process.deadlines import shutdown_seconds
from steady_queue.aio.supervisor.child import Child, ProcessFigures, describe_role, new_orders
from steady_queue.aio.supervisor.child_position import Position, Replacement
from steady_queue.aio.timing import WakeEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.aio.supervisor.child import ChildExit
    from steady_queue.configuration import Options

#: How long after the time to stop a child gets QUIT, and how long after that KILL.
QUIT_AFTER_SECONDS, KILL_AFTER_SECONDS = 0.5, 1.5
#: How long a child may take to send its first message, at least.
FIRST_MESSAGE_SECONDS = 60.0
#: How often children are checked without a reason, and where the system has no descriptor for their exit.
CHECK_SECONDS, CHECK_WITHOUT_EXIT_FD_SECONDS = 5.0, 0.25
#: The shortest sleep between two checks.
SHORTEST_SLEEP_SECONDS = 0.01


class Children:
    """Started by the event loop of the supervisor."""

    def __init__(
        self,
        positions: Sequence[Options],
        *,
        supervisor_id: UUID,
        report_seconds: float,
        alive_seconds: float,
        on_exit: Callable[[ChildExit], None],
        on_start_problem: Callable[[str], None],
        on_replacement: Callable[[Replacement], None],
        on_request: Callable[[], None],
        context: Context,
    ) -> None:
        self.positions = [Position(options) for options in positions]
        #: Set when the last child has exited after a request to stop.
        self.all_exited = asyncio.Event()
        self._wake_event = WakeEvent()
        self._supervisor_id = supervisor_id
        self._report_seconds = report_seconds
        self._alive_seconds = alive_seconds
        self._on_exit = on_exit
        #: Called if the very first child of a position could not start: then the others could not either.
        self._on_start_problem = on_start_problem
        self._on_replacement = on_replacement
        #: Called if a child has found that something is asked of the supervisor.
        self._on_request = on_request
        self._clock = context.clock
        self._events = context.events
        self._loop = asyncio.get_running_loop()
        #: TERM is sent when a stop is requested, QUIT and KILL at these deadlines.
        self._quit_at = self._kill_at = inf
        self._checked_at = self._clock.monotonic()
        self._exited_figures = ProcessFigures()
        self._is_immediate = False

    @property
    def running(self) -> list[Child]:
        return [
            child for position in self.positions for child in (position.recycled, position.child) if child is not None
        ]

    @property
    def is_stopping(self) -> bool:
        return self._quit_at < inf

    @property
    def figures(self) -> ProcessFigures:
        """Of all children, including those that have exited."""
        return reduce(ProcessFigures.plus, (child.figures for child in self.running), self._exited_figures)

    async def run(self) -> None:
        """Keep the positions filled until a stop is requested; then wait for the last child."""
        try:
            while True:
                self._check()
                if not self.is_stopping:
                    self._fill_positions()
                elif not self.running:
                    return
                await self._wake_event.wait(self._sleep_seconds())
        finally:
            self.all_exited.set()
            for child in self.running:  # only if this coroutine was cancelled or has failed
                child.send_signal(signal.SIGTERM)

    # -- requests -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let all children stop gracefully; more than once does no harm."""
        if not self.is_stopping:
            seconds = shutdown_seconds()
            self._quit_at = self._clock.monotonic() + seconds + QUIT_AFTER_SECONDS
            self._signal_all(signal.SIGTERM)
            if self.running:
                self._events.emit(events.ChildrenStopping(**self._describe(), seconds=seconds))
            self._wake_event.wake()

    def quit(self) -> None:
        """Let all children stop at once."""
        self._is_immediate = True
        self._quit_at = min(self._quit_at, self._clock.monotonic())
        self._wake_event.wake()

    def _describe(self) -> dict[str, Any]:
        pids = [child.pid for child in self.running]
        return {"supervisor_pid": os.getpid(), "pids": pids, "count": len(pids)}

    def _signal_all(self, number: signal.Signals) -> None:
        for child in self.running:
            child.send_signal(number)

    # -- checking -----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        now = self._clock.monotonic()
        self._reap(now)
        self._kill_silent(now)
        self._escalate(now)

    def _escalate(self, now: float) -> None:
        """Send QUIT, then KILL, to children that take too long to stop."""
        if now >= self._kill_at:
            self._kill_at = now + KILL_AFTER_SECONDS
            self._signal_all(signal.SIGKILL)
        elif now >= self._quit_at and self._kill_at == inf:
            self._kill_at = now + KILL_AFTER_SECONDS
            self._signal_all(signal.SIGQUIT)
            if self.running:
                self._events.emit(events.ChildrenQuitting(**self._describe(), timed_out=not self._is_immediate))

    def _kill_silent(self, now: float) -> None:
        if now - self._checked_at > 2 * CHECK_SECONDS:
            # The supervisor itself slept, perhaps with the whole machine: every child gets time to send a message.
            for child in self.running:
                child.last_message_at = now
        self._checked_at = now
        for child in self.running:
            if now - child.last_message_at > self._silence_allowed(child):
                child.read_messages(now)  # after a sleep, messages that arrived may not have been read yet
            silent_seconds = now - child.last_message_at
            if silent_seconds > self._silence_allowed(child) and child.signal_sent is not signal.SIGKILL:
                role = describe_role(child.options)
                self._events.emit(events.ChildUnresponsive(pid=child.pid, what=role, seconds=silent_seconds))
                child.popen.kill()  # without send_signal: its exit was not requested, so its tasks have failed
                child.last_message_at = now  # one that the system cannot kill yet is reported again, but not each time

    def _reap(self, now: float) -> None:
        for child in self.running:
            status = child.popen.poll()
            if status is None:
                continue
            child.read_messages(now)
            self._loop.remove_reader(child.channel)
            if child.exit_fd is not None:
                self._loop.remove_reader(child.exit_fd)
            exited = child.close(status)
            self._remove(exited, now)
            self._on_exit(exited)
        for position in self.positions:
            position.recycle_child()

    def _remove(self, exited: ChildExit, now: float) -> None:
        child = exited.child
        self._exited_figures = self._exited_figures.plus(child.figures._replace(processes=0, running=0))
        position = next(position for position in self.positions if child in (position.child, position.recycled))
        restart_delay = position.remove(exited, now)
        if exited.start_problem is not None and not position.has_worked:
            self._on_start_problem(exited.start_problem)
            return
        who: dict[str, Any] = {"pid": child.pid, "what": describe_role(child.options)}
        who |= {"how": exited.summary, "lived_seconds": now - child.started_at}
        self._events.emit(
            events.ChildExited(**who)
            if exited.was_requested
            else events.ChildDied(**who, restart_delay_seconds=restart_delay)
        )

    # -- starting -----------------------------------------------------------------------------------------------------

    def _fill_positions(self) -> None:
        now = self._clock.monotonic()
        for position in self.positions:
            if position.child is None and now >= position.not_before:
                self._start(position, now)

    def _start(self, position: Position, now: float) -> None:
        orders = new_orders(position.options, supervisor_id=self._supervisor_id, report_seconds=self._report_seconds)
        try:
            child = Child.start(orders, now)
        except OSError as error:  # no memory, descriptors or processes left
            position.delay_start(now)
            self._events.emit(events.RuntimeFault(where="starting a process", error=str(error), exception=error))
            return
        position.child = child
        self._loop.add_reader(child.channel, self._read, child)
        if child.exit_fd is not None:
            self._loop.add_reader(child.exit_fd, self._wake_event.wake)
        self._events.emit(events.ChildStarted(pid=child.pid, what=describe_role(child.options)))
        if position.replaced is not None:
            self._report_replacement(Replacement(position.replaced, position.replaced_status, child))
            position.replaced = None

    def _report_replacement(self, done: Replacement) -> None:
        self._events.emit(
            events.ChildReplaced(
                supervisor_pid=os.getpid(),
                pid=done.replaced.pid,
                status=done.status,
                replacement_pid=done.child.pid,
                what=describe_role(done.child.options),
            )
        )
        self._on_replacement(done)

    def _read(self, child: Child) -> None:
        if not child.read_messages(self._clock.monotonic()):
            self._loop.remove_reader(child.channel)
            self._wake_event.wake()
        if child.state.get("is_recycling"):
            self._wake_event.wake()
        if child.state.pop("has_requests", False):
            self._on_request()

    # -- time ---------------------------------------------------------------------------------------------------------

    def _silence_allowed(self, child: Child) -> float:
        return self._alive_seconds if child.state else max(self._alive_seconds, FIRST_MESSAGE_SECONDS)

    def _sleep_seconds(self) -> float:
        now = self._clock.monotonic()
        moments = [
            position.not_before for position in self.positions if position.child is None and not self.is_stopping
        ]
        moments += [self._kill_at if self._kill_at < inf else self._quit_at]
        moments += [child.last_message_at + self._silence_allowed(child) for child in self.running]
        has_exit_fds = all(child.exit_fd is not None for child in self.running)
        moments += [now + (CHECK_SECONDS if has_exit_fds else CHECK_WITHOUT_EXIT_FD_SECONDS)]
        return max(SHORTEST_SLEEP_SECONDS, min(moments) - now)
