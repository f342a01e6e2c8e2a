"""What tasks save and report in `run_pending` can be read from their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import Progress, SteadyQueueResult
from steady_queue.testing import run_pending
from tests.support.tasks import reporting

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task


def only_result() -> SteadyQueueResult[Any]:
    (result,) = run_pending(raising=True)
    assert isinstance(result, SteadyQueueResult)
    return result


@pytest.mark.parametrize("task", [reporting.reports, reporting.reports_in_thread])
def test_run_pending_writes_the_reports_of_each_task(database: str, task: Task[..., Any]) -> None:
    task.enqueue(2)
    result = only_result()
    assert result.progress is not None
    assert (result.progress.done, result.progress.total, result.progress.message) == (2, 2, "row 2")
    assert [line.message for line in result.log] == ["line 1", "line 2"]


@pytest.mark.parametrize("task", [reporting.changes_metadata, reporting.changes_metadata_in_thread])
def test_run_pending_stores_metadata(database: str, task: Task[..., Any]) -> None:
    task.enqueue("a", 1)
    assert only_result().metadata == {"a": 1}


def test_a_task_without_reports_has_none(database: str) -> None:
    reporting.reports.enqueue(1)
    reporting.reports.enqueue(0)
    first, second = run_pending(raising=True)
    assert isinstance(first, SteadyQueueResult)
    assert isinstance(second, SteadyQueueResult)
    assert isinstance(first.progress, Progress)
    assert (second.progress, second.log) == (None, [])
