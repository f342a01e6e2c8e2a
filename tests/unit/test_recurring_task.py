"""The decorator, and everything that can be wrong with what it is given."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from steady_queue import task
from steady_queue.errors import ConfigurationError
from steady_queue.recurring_task import Recurrence, Recurrences, recurrences, recurring
from tests.shop import tasks


def recurrence(**options: Any) -> Recurrence:
    return Recurrence(**{"task": tasks.noop, "key": "nightly", "schedule": "0 3 * * *", **options})


def test_the_decorator_returns_the_task_as_it_was_and_keeps_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steady_queue.recurring_task.recurrences", kept := Recurrences())
    decorated = recurring(schedule="0 10 * * *", args=(1,), key="one")(
        recurring(every=timedelta(hours=1), key="two")(tasks.noop)
    )
    assert decorated is tasks.noop
    assert [r.key for r in kept._all] == ["two", "one"]


def test_a_function_that_is_no_task_is_refused() -> None:
    with pytest.raises(ValueError, match="goes above @task"):
        recurring("0 * * * *", "key")(lambda: None)  # type: ignore[arg-type]


def test_a_module_that_is_imported_anew_replaces_its_entries() -> None:
    kept = Recurrences()

    def defined(key: str) -> Recurrence:
        def again() -> None: ...

        again.__qualname__ = "again"
        return recurrence(task=task(again), key=key)

    kept.add(defined("old"))
    kept.add(defined("new"))
    assert [r.key for r in kept._all] == ["new"]


def test_an_entry_keeps_what_the_decorator_was_given() -> None:
    entry = recurrence(every=timedelta(minutes=5), schedule=None, priority=7, time_zone="Europe/Madrid").entry()
    assert entry.task_path == "tests.shop.tasks.noop"
    assert (entry.schedule, entry.priority, entry.queue_name) == ("@every 300", 7, None)
    assert entry.time_zone == "Europe/Madrid"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"schedule": "61 * * * *"}, "out of range"),
        ({"schedule": None}, "either a schedule or every"),
        ({"every": timedelta(hours=1)}, "either a schedule or every"),
        ({"time_zone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"catch_up": "some"}, "catch_up must be one of"),
        ({"key": ""}, "not empty"),
        ({"key": 5}, "not empty"),
        ({"key": "k" * 300}, "at most 255"),
        ({"key": "a\x00b"}, "NUL"),
        ({"args": (1, 2, 3)}, "cannot be called so"),
        ({"kwargs": {"unknown": 1}}, "cannot be called so"),
        ({"args": "abc"}, "args must be"),
        ({"queue_name": "q" * 300}, "(?i)queue"),
        ({"priority": 101}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"description": "\ud800"}, "surrogate"),
    ],
)
def test_what_is_wrong_is_named_with_the_key(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        recurrence(**options).entry()
    assert str(raised.value).startswith("recurring task ")


def test_arguments_that_cannot_be_stored_are_named() -> None:
    with pytest.raises(ConfigurationError):
        recurrence(task=tasks.anything, args=(object(),)).entry()


def test_a_task_that_cannot_be_found_by_its_path_is_named() -> None:
    def inside() -> None: ...

    inside.__qualname__ = "nowhere"
    with pytest.raises(ConfigurationError, match="is not a task"):
        recurrence(task=task(inside)).entry()


def test_all_problems_are_told_at_once() -> None:
    kept = Recurrences()
    for options in ({"key": "twice"}, {"key": "twice"}, {"key": "bad", "schedule": "x", "catch_up": "never"}):
        kept.add(recurrence(**options))
    kept.add(recurrence(key="zone", time_zone="Nowhere", priority=1000))
    found = "\n".join(kept.problems())
    for part in (
        "'twice': 2 entries have this key",
        "'bad': catch_up",
        "'zone': there is no time zone",
        "'zone': priority",
    ):
        assert part in found


def test_the_suite_itself_has_no_problems() -> None:
    assert list(recurrences.problems()) == []
