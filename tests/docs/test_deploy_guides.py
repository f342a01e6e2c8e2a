"""The examples of the guides to rolling deploys and replay do what the text says."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.test import override_settings

import steady_queue
from steady_queue.backend import SteadyQueueBackend
from steady_queue.checks.installation import check_backend
from steady_queue.jobs.compat import TaskResultStatus, task_backends
from steady_queue.testing import run_pending
from tests.docs.pages import page
from tests.shop.tasks import add
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROLLING = page("docs/guides/rolling-deploys.md")


def test_the_settings_of_rolling_deploys_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_COMMIT", "4711abc")
    monkeypatch.setattr(steady_queue, "code_version", None)
    (block,) = ROLLING.blocks("python")
    names: dict[str, Any] = {}
    exec(block, names)
    assert steady_queue.code_version == "4711abc"
    with override_settings(TASKS=names["TASKS"]):
        backend = task_backends["default"]
        assert isinstance(backend, SteadyQueueBackend)
        assert backend.options["on_unknown_task"] == "release"
        assert list(check_backend(backend)) == []


def test_the_example_of_a_retry_with_other_arguments(database: str, example_of: Callable[..., ModuleType]) -> None:
    module = example_of("replay")
    id_ = module.total.enqueue([3, 4], divisor=0).id
    assert [result.status for result in run_pending()] == [TaskResultStatus.FAILED]
    module.repair(id_)
    (result,) = run_pending()
    assert (result.id, result.return_value) == (id_, 3)
    found: Any = task_backends["default"].get_result(id_)
    assert [old.kwargs for old in found.old_arguments] == [{"divisor": 0}]


def test_the_json_of_the_check_has_the_keys_of_the_example(database: str) -> None:
    (block,) = ROLLING.blocks("json")
    SyncStore(database).enqueue(job(task_path=add.module_path, arguments='[1,[],{"to":1}]'))
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("steady_queue", "check", "--stored", "--json", stdout=out)
    found, expected = json.loads(out.getvalue()), json.loads(block)
    assert found.keys() == expected.keys()
    assert [*found["findings"][0]] == [*expected["findings"][0]]
