"""The event loop of a thread pauses while the process forks: the child must not inherit what a callback has locked."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from steady_queue.db import fork_pause
from steady_queue.db.fork_pause import ForkPause
from tests.support.wait import WAIT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


@contextmanager
def loop_of_a_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(WAIT_TIMEOUT_SECONDS)
    loop.close()


def occupy(loop: asyncio.AbstractEventLoop) -> threading.Event:
    """Let the loop run a callback until the event is set."""
    runs, may_end = threading.Event(), threading.Event()

    def callback() -> None:
        runs.set()
        may_end.wait(WAIT_TIMEOUT_SECONDS)

    loop.call_soon_threadsafe(callback)
    assert runs.wait(WAIT_TIMEOUT_SECONDS)
    return may_end


def test_a_pause_begins_after_the_callback_that_runs_and_lets_no_other_begin_before_its_end() -> None:
    with loop_of_a_thread() as loop:
        may_end = occupy(loop)
        has_begun, is_next = threading.Event(), threading.Event()
        pauses: list[ForkPause] = []

        def pause() -> None:
            pauses.append(ForkPause(loop))
            has_begun.set()

        forking = threading.Thread(target=pause)
        forking.start()
        assert not has_begun.is_set()
        may_end.set()
        assert has_begun.wait(WAIT_TIMEOUT_SECONDS)
        loop.call_soon_threadsafe(is_next.set)
        assert not is_next.is_set()
        pauses[0].end()
        assert is_next.wait(WAIT_TIMEOUT_SECONDS)
        forking.join()


def test_neither_a_callback_that_does_not_end_nor_a_closed_loop_holds_a_fork_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fork_pause, "PAUSE_SECONDS", 0.01)
    with loop_of_a_thread() as loop:
        may_end = occupy(loop)
        ForkPause(loop).end()
        may_end.set()
    ForkPause(loop).end()


def test_a_pause_that_is_never_ended_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_pause, "PAUSE_SECONDS", 0.01)
    with loop_of_a_thread() as loop:
        ForkPause(loop)
        is_next = threading.Event()
        loop.call_soon_threadsafe(is_next.set)
        assert is_next.wait(WAIT_TIMEOUT_SECONDS)
