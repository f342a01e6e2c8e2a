"""Stored paths that name no task: the error says why, and what to do."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from steady_queue.errors import UnknownTaskError
from steady_queue.jobs.registry import Registry
from tests.shop import tasks

pytestmark = pytest.mark.contract


def test_a_path_of_a_task_is_resolved() -> None:
    assert Registry().resolve("tests.shop.tasks.add") is tasks.add


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "no.such.module.task",
            "is not a task of an installed app: define it in the module tasks of an app in INSTALLED",
        ),
        (
            "tests.shop.tasks.gone",
            "the module tests.shop.tasks has no task 'gone' in this process; .* restart the worker",
        ),
        ("tests.shop.missing.task", "cannot be imported: No module named 'tests.shop.missing'"),
        ("__main__.in_a_script", "it was defined in a script, which a worker does not import"),
    ],
)
def test_a_path_of_no_task_is_explained(path: str, says: str) -> None:
    assert "__main__" in sys.modules
    with pytest.raises(UnknownTaskError, match=says) as caught:
        Registry().resolve(path)
    error: Any = caught.value
    assert str(error).startswith(f"'{path}' ")
