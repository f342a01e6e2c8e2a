"""Children: the child processes of a supervisor. Each post is kept filled: who leaves or dies is replaced.

The first replacement comes at once, and as long as children die young, each next one later. A child that has not been
heard for the time after which others take it for dead is killed. What became of a child's tasks is the undertaker's
affair: nobody waits for the database here.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue import events
from steady_queue.aio.supervisor.child import Child, End, ProcessFigures, new_orders, what

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from steady_queue.aio.timing import Clock, WakeEvent
    from steady_queue.configuration import Options
    from steady_queue.events import Events

#: A child that lived shorter died young, in seconds.
YOUNG = 10.0
#: Pauses before replacements of children that die young: none, then from the first to the second, in seconds.
SHORTEST, LONGEST = 0.5, 30.0
#: How long after its time to stop a child is told to quit, and how long after that it is killed, in seconds.
QUIT_AFTER, KILL_AFTER = 0.5, 1.5
#: How long a child may take to say its first word, at least, in seconds.
BOOT = 60.0
#: How often children are looked at without a reason, and where the system does not tell of their end, in seconds.
LOOK, LOOK_WITHOUT_EXIT = 5.0, 0.25


@dataclass(slots=True, eq=False)
class Post:
    """A place that is to be filled."""

    options: Options
    child: Child | None = None
    #: One that finishes its last tasks while another has its post already. Never two: that would be no bound at all.
    retired: Child | None = None
    #: Whether any of its children has worked.
    has_worked: bool = False
    #: How many children in a row died young, and when the next may start.
    died_young: int = 0
    not_before: float = 0.0
    #: Whom the next takes the place of, and how it ended, once it has.
    before: Child | None = None
    status: int | None = None


class Replacement(NamedTuple):
    """A child that was started in the place of another, which has ended with `status` unless it retires (None)."""

    before: Child
    status: int | None
    child: Child


class Children:
    """Started by the loop whose process is their parent."""

    def __init__(
        self,
        posts: Sequence[Options],
        *,
        supervisor_id: UUID,
        every: float,
        alive: float,
        shutdown_timeout: float,
        ended: Callable[[End], None],
        refused: Callable[[str], None],
        replaced: Callable[[Replacement], None],
        bell: WakeEvent,
        clock: Clock,
        events: Events,
    ) -> None:
        self.posts = [Post(options) for options in posts]
        #: Set when the last child has left after a stop.
        self.gone = asyncio.Event()
        self.bell = bell
        self._supervisor_id = supervisor_id
        self._every = every
        self._alive = alive
        self._shutdown_timeout = shutdown_timeout
        self._ended = ended
        #: Told why the very first child of a post did not start: the others would not either.
        self._refused = refused
        self._replaced = replaced
        self._clock = clock
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._stop_by = self._quit_by = self._kill_by = inf
        self._looked = clock.monotonic()
        self._before = ProcessFigures()
        self._is_told_to_quit = False

    @property
    def children(self) -> list[Child]:
        return [child for post in self.posts for child in (post.retired, post.child) if child is not None]

    @property
    def is_stopping(self) -> bool:
        return self._quit_by < inf

    @property
    def facts(self) -> ProcessFigures:
        """What all children have done, also those that are gone."""
        now = [
            ProcessFigures(1, *(int(child.state.get(n, 0)) for n in ProcessFigures._fields[1:]))
            for child in self.children
        ]
        return reduce(ProcessFigures.plus, now, self._before)

    async def run(self) -> None:
        """Keep the posts filled until told to stop; then until the last child has left."""
        try:
            while True:
                self._look()
                if not self.is_stopping:
                    self._fill()
                elif not self.children:
                    return
                await self.bell.wait(self._pause())
        finally:
            self.gone.set()
            for child in self.children:  # only when this loop was cancelled or broke
                child.tell(signal.SIGTERM)

    # -- told from outside --------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let all children stop gracefully; more than once does no harm."""
        if not self.is_stopping:
            self._quit_by = self._clock.monotonic() + self._shutdown_timeout + QUIT_AFTER
            self._tell_all(signal.SIGTERM)
            self._events.emit(events.ChildrenStopping(**self._whom, seconds=self._shutdown_timeout))
            self.bell.wake()

    def quit(self) -> None:
        """Let all children stop at once."""
        now = self._clock.monotonic()
        self._is_told_to_quit = True
        self._quit_by = min(self._quit_by, now)
        self.bell.wake()

    @property
    def _whom(self) -> dict[str, Any]:
        pids = [child.pid for child in self.children]
        return {"supervisor_pid": os.getpid(), "pids": pids, "count": len(pids)}

    def _tell_all(self, number: signal.Signals) -> None:
        for child in self.children:
            child.tell(number)

    # -- one turn -----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        now = self._clock.monotonic()
        self._reap(now)
        if now - self._looked > 2 * LOOK:
            # We ourselves slept, perhaps with the whole machine: give everybody time to be heard.
            for child in self.children:
                child.heard = now
        self._looked = now
        for child in self.children:
            if now - child.heard > self._patience(child):
                child.listen(now)  # if we slept, what it said meanwhile may not have been read yet
            if now - child.heard > self._patience(child) and child.told is not signal.SIGKILL:
                self._events.emit(
                    events.ChildUnresponsive(pid=child.pid, what=what(child.options), seconds=now - child.heard)
                )
                child.popen.kill()  # not told to stop: its tasks have failed
                child.heard = now  # one that the system cannot kill yet is told of again, but not in every turn
        if now >= self._kill_by:
            self._kill_by = now + KILL_AFTER
            self._tell_all(signal.SIGKILL)
        elif now >= self._quit_by and self._kill_by == inf:
            self._kill_by = now + KILL_AFTER
            self._tell_all(signal.SIGQUIT)
            if self.children:
                self._events.emit(events.ChildrenQuitting(**self._whom, timed_out=not self._is_told_to_quit))

    def _reap(self, now: float) -> None:
        for child in self.children:
            status = child.popen.poll()
            if status is None:
                continue
            child.listen(now)
            self._loop.remove_reader(child.line)
            if child.exit is not None:
                self._loop.remove_reader(child.exit)
            end = child.end(status)
            self._remove(child, end, now)
            self._ended(end)
        for post in self.posts:
            if post.child is not None and post.retired is None and post.child.state.get("retiring"):
                post.retired, post.before, post.status = post.child, post.child, None
                post.child = None

    def _remove(self, child: Child, end: End, now: float) -> None:
        lived = now - child.started
        self._before = self._before.plus(
            ProcessFigures(ended=int(child.state.get("ended", 0)), failed=int(child.state.get("failed", 0)))
        )
        pause = 0.0
        post = next(post for post in self.posts if child in (post.child, post.retired))
        post.has_worked = post.has_worked or "running" in child.state
        if child is post.retired:
            post.retired = None
        else:
            post.child, post.before, post.status = None, child, end.status
            # Nobody who leaves as told, or lived for long, is to blame.
            post.died_young = post.died_young + 1 if lived < YOUNG and not end.was_told else 0
            if post.died_young > 1:
                pause = min(LONGEST, SHORTEST * 2 ** (post.died_young - 2))
            post.not_before = now + pause
        if end.refusal is not None and not post.has_worked:
            self._refused(end.refusal)
            return
        who: dict[str, Any] = {"pid": child.pid, "what": what(child.options), "how": end.how, "lived_seconds": lived}
        exited = events.ChildExited(**who) if end.was_told else events.ChildDied(**who, restart_delay_seconds=pause)
        self._events.emit(exited)

    def _fill(self) -> None:
        now = self._clock.monotonic()
        for post in self.posts:
            if post.child is None and now >= post.not_before:
                self._start(post, now)

    def _start(self, post: Post, now: float) -> None:
        try:
            child = Child.start(new_orders(post.options, supervisor_id=self._supervisor_id, every=self._every), now)
        except OSError as error:  # no memory, no descriptors, no processes left: as if it had died young
            post.died_young += 1
            post.not_before = now + min(LONGEST, SHORTEST * 2**post.died_young)
            self._events.emit(events.RuntimeFault(where="starting a process", error=str(error), exception=error))
            return
        post.child = child
        self._loop.add_reader(child.line, self._hear, child)
        if child.exit is not None:
            self._loop.add_reader(child.exit, self.bell.wake)
        self._events.emit(events.ChildStarted(pid=child.pid, what=what(child.options)))
        if post.before is not None:
            self._tell_replaced(Replacement(post.before, post.status, child))
            post.before = None

    def _tell_replaced(self, done: Replacement) -> None:
        self._events.emit(
            events.ChildReplaced(
                supervisor_pid=os.getpid(),
                pid=done.before.pid,
                status=done.status,
                replacement_pid=done.child.pid,
                what=what(done.child.options),
            )
        )
        self._replaced(done)

    def _hear(self, child: Child) -> None:
        if not child.listen(self._clock.monotonic()):
            self._loop.remove_reader(child.line)
            self.bell.wake()
        if child.state.get("retiring"):
            self.bell.wake()

    # -- time ---------------------------------------------------------------------------------------------------------

    def _patience(self, child: Child) -> float:
        return self._alive if child.state else max(self._alive, BOOT)

    def _pause(self) -> float:
        now = self._clock.monotonic()
        moments = [post.not_before for post in self.posts if post.child is None and not self.is_stopping]
        moments += [self._kill_by if self._kill_by < inf else self._quit_by]
        moments += [child.heard + self._patience(child) for child in self.children]
        look = LOOK if all(child.exit is not None for child in self.children) else LOOK_WITHOUT_EXIT
        return max(0.01, min([now + look, *moments]) - now)
