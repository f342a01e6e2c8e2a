"""The task of a stored path is found, also while another thread imports its module; other paths are explained."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue.errors import UnknownTaskError
from steady_queue.jobs.registry import Registry
from tests.shop import tasks
from tests.support.threads import WAIT_TIMEOUT_SECONDS, while_in_thread

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract

importing, may_continue = threading.Event(), threading.Event()
MODULE = f"""
from steady_queue import task
from {__name__} import importing, may_continue

importing.set()
may_continue.wait({WAIT_TIMEOUT_SECONDS})

@task
def defined_last():
    pass
"""


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


def test_a_task_is_found_while_another_thread_imports_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slowly_imported.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with while_in_thread(lambda: import_module("slowly_imported")) as imported:
            assert importing.wait(WAIT_TIMEOUT_SECONDS)
            threading.Timer(0.2, may_continue.set).start()
            found = Registry().resolve("slowly_imported.defined_last")
            assert found is imported.result(WAIT_TIMEOUT_SECONDS).defined_last
    finally:
        may_continue.set()
        sys.modules.pop("slowly_imported", None)
