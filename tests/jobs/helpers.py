"""What the tests of tasks and the framework's log share."""

from __future__ import annotations

import logging
import logging.config
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import task
from steady_queue.jobs.compat import (
    FRAMEWORK,
    Task,
    TaskResultStatus,
)
from tests.shop import framework_tasks
from tests.support.tasks import recording

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task, TaskResult

logger = logging.getLogger(FRAMEWORK)


def words(task: Task[..., Any], result: TaskResult[Any], status: TaskResultStatus) -> str:
    return f"Task id={result.id} path={task.module_path} state={status}"


in_loop_and_thread = pytest.mark.parametrize(
    ("succeeds", "fails"),
    [
        (recording.tells_locale, recording.misbehaves),
        (recording.tells_locale_in_thread, recording.misbehaves_in_thread),
    ],
    ids=["async", "sync"],
)

DECORATORS = pytest.mark.parametrize("decorator", [task, framework_tasks.task], ids=["ours", "the framework's"])


def plain(a: int = 0) -> int:
    return a


async def awaited() -> None:
    pass


def with_context(context: object) -> None:
    pass


class Holder:
    def method(self) -> None:
        pass
