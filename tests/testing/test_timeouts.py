"""Timeouts of tasks that a test runs itself."""

from __future__ import annotations

import pytest

from steady_queue.testing import arun_pending, run_pending
from tests.support.runtime import error_of
from tests.support.tasks import timing_out

TIMEOUT = "steady_queue.errors.TaskTimeout"


def test_run_pending_ends_tasks_at_their_timeout(database: str) -> None:
    timing_out.awaits_for_ever.enqueue()
    timing_out.stops_itself.using(timeout=0.05).enqueue()
    timing_out.reads_deadline.enqueue(7)
    late, stopped, ended = run_pending()
    assert [error_of(late), error_of(stopped)] == [TIMEOUT] * 2
    assert ended.return_value == 7


@pytest.mark.anyio
async def test_arun_pending_ends_tasks_at_their_timeout(database: str) -> None:
    await timing_out.awaits_for_ever.aenqueue()
    await timing_out.stops_itself.using(timeout=0.05).aenqueue()
    await timing_out.reads_deadline.aenqueue(7)
    late, stopped, ended = await arun_pending()
    assert [error_of(late), error_of(stopped)] == [TIMEOUT] * 2
    assert ended.return_value == 7
