"""Watcher: one thread of a process that reads the jobs which this process waits for.

All callers share it, in sync and in async code: however many wait, their jobs are read with one statement. It has an
event loop and connections of its own, which it opens with the first watch and closes some time after the last. A
notification of a worker lets it read the job at once; without notifications it reads more and more rarely.

It must not keep the process from exiting, so it is a daemon. A forked process does not have the thread: it starts one
of its own. While the process forks, the thread pauses.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.core import mail

from steady_queue.db.aliases import import_async_driver, open_async
from steady_queue.db.fork_pause import ForkPause
from steady_queue.db.missing_tables import aexplain_store_error
from steady_queue.db.result_channel import ResultChannel
from steady_queue.db.watch import LISTENING, POLLING
from steady_queue.errors import StoreBug, StoreDataError, StoreError, StoreUnavailable
from steady_queue.store.job import ENDED
from steady_queue.store.operations.results import find_jobs, find_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from steady_queue.db.watch import Watch
    from steady_queue.store.drivers.pool import Pool
    from steady_queue.store.job import JobRecord, JobState

#: How long the thread and its connections are kept after the last watch.
KEEP_SECONDS = 60.0
#: How long a read may take.
READ_SECONDS = 30.0
#: How long the database may be unavailable before the watches fail.
OUTAGE_SECONDS = 30.0
#: How long the exit of the process waits for the connections to be closed.
EXIT_SECONDS = 1.0


class Watcher:
    """The watches of this process for one database."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._lock = threading.Lock()
        self._watches: dict[UUID, list[Watch]] = {}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._is_stopping = False
        self._failing_since: float | None = None

    # -- from any thread ----------------------------------------------------------------------------------------------

    def add(self, watch: Watch) -> None:
        """Read the job of this watch until it has ended, or until the watch is removed."""
        with self._lock:
            self._watches.setdefault(watch.job_id, []).append(watch)
            if self._thread is None:
                import_async_driver(self.alias)
                self._thread = threading.Thread(target=self._run, name="steady-queue-watcher", daemon=True)
                self._thread.start()
        self._wake_up()

    def remove(self, watch: Watch) -> None:
        with self._lock:
            self._forget(watch)
            is_idle = not self._watches
        if is_idle:
            self._wake_up()

    @property
    def has_watches(self) -> bool:
        return bool(self._watches)

    def hint(self, job_ids: Iterable[UUID], *, has_ended: bool = True) -> None:
        """An attempt of these jobs has ended, or they have changed in another way: read them at once."""
        if not self._watches:
            return
        with self._lock:
            watches = [watch for id_ in job_ids for watch in self._watches.get(id_, ()) if has_ended or watch.follows]
            for watch in watches:
                watch.is_hinted = True
        if watches:
            self._wake_up()

    def pause(self) -> ForkPause | None:
        """Begin a pause of the thread, if it runs. Called before the process forks."""
        loop = self._loop
        return None if loop is None else ForkPause(loop)

    def stop(self) -> None:
        """The process exits: close the connections, if that is possible at once."""
        self._is_stopping = True
        self._wake_up()
        thread = self._thread
        if thread is not None:
            thread.join(EXIT_SECONDS)

    def _wake_up(self) -> None:
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(wake.set)

    def _forget(self, watch: Watch) -> None:
        others = [other for other in self._watches.get(watch.job_id, ()) if other is not watch]
        if others:
            self._watches[watch.job_id] = others
        else:
            self._watches.pop(watch.job_id, None)

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._end(error)
        except BaseException:  # the interpreter exits
            self._end(StoreUnavailable("the process exits"))

    def _end(self, error: Exception | None = None) -> None:
        """The thread ends. The watches that it leaves fail."""
        with self._lock:
            left = [watch for watches in self._watches.values() for watch in watches]
            self._watches.clear()
            self._thread = self._loop = self._wake = None
        for watch in left:
            watch.fail(error or StoreUnavailable("the process exits"))

    async def _serve(self) -> None:
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        driver = open_async(self.alias, size=1)
        channel = ResultChannel(self.alias, driver, self.hint)
        idle_since: float | None = None
        try:
            while not self._is_stopping:
                self._wake.clear()
                now = time.monotonic()
                if self._watches:
                    idle_since = None
                    due = self._take_due(now)
                    if due:
                        await self._read(driver, channel, due)
                    else:
                        await self._sleep(self._seconds_to_next(now))
                    continue
                idle_since = now if idle_since is None else idle_since
                left_seconds = idle_since + _keep_seconds() - now
                if left_seconds > 0:
                    await self._sleep(left_seconds)
                elif self._leave():
                    return
            self._end()
        finally:
            channel.close()
            await driver.close()

    def _leave(self) -> bool:
        """End the thread, unless there is a new watch."""
        with self._lock:
            if self._watches:
                return False
            self._thread = self._loop = self._wake = None
            return True

    async def _sleep(self, seconds: float) -> None:
        assert self._wake is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _all(self) -> list[Watch]:
        with self._lock:
            return [watch for watches in self._watches.values() for watch in watches]

    def _seconds_to_next(self, now: float) -> float:
        return max(0.0, min((watch.due_at for watch in self._all()), default=now) - now)

    def _take_due(self, now: float) -> list[Watch]:
        """The watches whose jobs are to be read now: with those that are due, also those that are due soon."""
        watches = self._all()
        if not any(watch.due_at <= now for watch in watches):
            return []
        return [watch for watch in watches if watch.due_at <= now + watch.pause_seconds / 2]

    async def _read(self, driver: Pool[Any], channel: ResultChannel, due: Sequence[Watch]) -> None:
        hinted = {watch.job_id for watch in due if watch.is_hinted}
        for watch in due:
            watch.is_hinted = False  # what is read now may be older than the next hint
        try:
            async with asyncio.timeout(READ_SECONDS):
                await channel.announce(due)
                found = await self._find(driver, due, hinted)
        except (StoreError, TimeoutError) as error:
            await self._fail_or_wait(driver, due, error)
            return
        self._failing_since = None
        schedule = LISTENING if channel.is_listening else POLLING
        now = time.monotonic()
        for watch in due:
            watch.see(found.get(watch.job_id), now, schedule)
            if watch.is_over:
                self.remove(watch)

    async def _find(
        self, driver: Pool[Any], due: Sequence[Watch], hinted: set[UUID]
    ) -> dict[UUID, JobState | JobRecord]:
        """Read the states of the jobs, and all of those that have ended.

        A job of which a notification said that it has changed has probably ended: all of it is read at once.
        """
        followed = {watch.job_id for watch in due if watch.follows} - hinted
        awaited = {watch.job_id for watch in due} - followed - hinted
        found: dict[UUID, JobState | JobRecord] = {}
        for ids, with_reports in ((awaited, False), (followed, True)):
            if ids:
                states = await driver.run(find_states(driver.sql, list(ids), with_reports=with_reports))
                found |= states
        complete = [*hinted, *(id_ for id_, state in found.items() if state.status in ENDED)]
        for record in await driver.run(find_jobs(driver.sql, complete)):
            found[record.id] = record
        return found

    async def _fail_or_wait(self, driver: Pool[Any], due: Sequence[Watch], error: Exception) -> None:
        """Wait while the database is unavailable, but not for ever: other calls of the project fail at once."""
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        is_permanent = isinstance(error, (StoreBug, StoreDataError))
        if not is_permanent and now - self._failing_since < OUTAGE_SECONDS:
            for watch in due:
                watch.next_read_at = now + POLLING.longest_seconds
            return
        explained = await aexplain_store_error(self.alias, driver, error) if isinstance(error, StoreError) else None
        for watch in due:
            self.remove(watch)
            watch.fail(explained or error)


def _keep_seconds() -> float:
    # A test runner drops its database soon after the last test, which an open connection would prevent.
    return 0.0 if hasattr(mail, "outbox") else KEEP_SECONDS


_watchers: dict[str, Watcher] = {}
_lock = threading.Lock()
#: The watchers of the process that this one was forked from. Destroying their event loops would change the selectors
#: that both processes share.
_inherited: list[dict[str, Watcher]] = []
#: The pauses of the fork that a thread has begun.
_forking = threading.local()


def watcher(alias: str) -> Watcher:
    """Return the watcher of this process for an alias."""
    with _lock:
        if alias not in _watchers:
            _watchers[alias] = Watcher(alias)
        return _watchers[alias]


def is_watching(alias: str) -> bool:
    """Whether a caller of this process waits for a job."""
    found = _watchers.get(alias)
    return found is not None and found.has_watches


def hint(alias: str, job_ids: Sequence[UUID], *, has_ended: bool) -> None:
    """This process has changed these jobs: its own callers that wait for them read them at once."""
    found = _watchers.get(alias)
    if found is not None:
        found.hint(job_ids, has_ended=has_ended)


def _pause_all() -> None:
    _forking.pauses = [pause for each in list(_watchers.values()) if (pause := each.pause()) is not None]


def _resume_all() -> None:
    for pause in _forking.pauses:
        pause.end()
    _forking.pauses = []


def _forget_inherited() -> None:
    global _watchers, _lock
    _inherited.append(_watchers)
    _watchers, _lock = {}, threading.Lock()
    _forking.pauses = []


os.register_at_fork(before=_pause_all, after_in_parent=_resume_all, after_in_child=_forget_inherited)


@atexit.register
def _stop_all() -> None:
    for each in list(_watchers.values()):
        each.stop()
