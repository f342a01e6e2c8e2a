from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest
from asgiref.sync import async_to_sync

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult


class Run(Protocol):
    """Runs what waits, from sync or from async code."""

    def __call__(self, **options: Any) -> list[TaskResult[Any]]: ...


def run_sync(**options: Any) -> list[TaskResult[Any]]:
    from steady_queue.testing import run_pending  # not before Django is set up

    return run_pending(**options)


def run_async(**options: Any) -> list[TaskResult[Any]]:
    from steady_queue.testing import arun_pending

    return async_to_sync(arun_pending)(**options)


@pytest.fixture(params=[run_sync, run_async], ids=["run_pending", "arun_pending"])
def run(request: pytest.FixtureRequest) -> Run:
    """Both ways to run what waits: what is true of one must be true of the other."""
    way: Run = request.param
    return way
