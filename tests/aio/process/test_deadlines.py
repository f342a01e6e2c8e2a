"""Deadlines of a shutdown: requests only bring them nearer, also for a stage that runs."""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from steady_queue.aio.process import deadlines
from steady_queue.aio.process.deadlines import Deadlines
from steady_queue.aio.timing import SystemClock

pytestmark = pytest.mark.anyio


class StoppedClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


async def test_a_second_request_with_more_time_changes_nothing() -> None:
    clock = StoppedClock()
    found = Deadlines(clock)
    found.request(10.0)
    clock.seconds += 1
    found.request(3600.0)
    assert found.requested.is_set()
    assert (found.task_seconds, found.tasks_by, found.cancel_tasks_at) == (10.0, 1010.0, 1009.5)
    assert (found.hooks_by, found.flush_by, found.flush_seconds) == (1010.0, 1005.0, 5.0)


async def test_an_immediate_request_leaves_a_moment_for_hooks_and_outcomes() -> None:
    clock = StoppedClock()
    found = Deadlines(clock)
    found.request(10.0)
    clock.seconds += 1
    found.request_now()
    assert (found.task_seconds, found.tasks_by, found.cancel_tasks_at) == (0.0, 1001.0, 1001.0)
    assert (found.hooks_by, found.flush_by, found.exit_hooks_seconds) == (1001.5, 1001.5, 0.25)


async def test_the_time_for_outcomes_begins_when_the_tasks_have_ended() -> None:
    clock = StoppedClock()
    found = Deadlines(clock)
    found.request(10.0)
    clock.seconds += 10
    found.start_flush()
    assert found.flush_by == 1015.0


async def test_without_a_request_there_is_no_deadline_but_for_closing() -> None:
    found = Deadlines(StoppedClock())
    assert found.tasks_by == found.cancel_tasks_at == found.hooks_by == found.flush_by == found.exit_by == inf
    assert not found.is_exit_overdue
    assert found.close_seconds == deadlines.FLUSH_SECONDS


async def test_a_request_shortens_a_stage_that_runs() -> None:
    found = Deadlines(SystemClock())
    found.request(3600.0)
    asyncio.get_running_loop().call_soon(found.request_now)
    with found.limit(lambda: found.tasks_by) as scope:
        await asyncio.Event().wait()
    assert scope.cancelled_caught
