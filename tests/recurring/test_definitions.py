"""The decorator, and every problem that its arguments can have."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from steady_queue import arguments, task
from steady_queue.configuration import Options, RecurringTask
from steady_queue.errors import ConfigurationError
from steady_queue.recurring.definitions import Recurrence, Recurrences, collect_recurrences, recurrences, recurring
from tests.shop import tasks


def recurrence(**options: Any) -> Recurrence:
    return Recurrence(**{"task": tasks.noop, "key": "nightly", "schedule": "0 3 * * *", **options})


def test_the_decorator_returns_the_task_as_it_was_and_keeps_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steady_queue.recurring.definitions.recurrences", kept := Recurrences())
    decorated = recurring(schedule="0 10 * * *", args=(1,), key="one")(
        recurring(every=timedelta(hours=1), key="two")(tasks.noop)
    )
    assert decorated is tasks.noop
    assert [r.key for r in kept._all] == ["two", "one"]


def test_a_function_that_is_no_task_is_refused() -> None:
    with pytest.raises(ValueError, match="put @recurring above @task"):
        recurring("0 * * * *", "key")(lambda: None)  # type: ignore[arg-type]


def test_a_module_that_is_imported_again_replaces_its_entries() -> None:
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


def test_a_task_with_a_queue_and_a_priority_of_its_own_keeps_them() -> None:
    other = tasks.anything.using(queue_name="mail", priority=7)
    entry = recurrence(task=other).entry()
    assert (entry.queue_name, entry.priority) == ("mail", 7)
    # The options of the entry win over those of the task, which are not stored: they may change in the code.
    entry = recurrence(task=other, queue_name="default", priority=3).entry()
    assert (entry.queue_name, entry.priority) == ("default", 3)
    entry = recurrence(task=tasks.anything).entry()
    assert (entry.queue_name, entry.priority) == (None, None)


def test_thousands_of_decorators_are_kept_without_being_compared_with_each_other() -> None:
    kept, begun = Recurrences(), time.thread_time()
    for number in range(5_000):
        kept.add(recurrence(key=f"key {number}"))
    # Processor time, so that other processes do not count: comparing all pairs takes several seconds.
    assert time.thread_time() - begun < 1
    assert len(kept._all) == 5_000


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"schedule": "61 * * * *"}, "out of range"),
        ({"schedule": None}, "exactly one of schedule and every"),
        ({"every": timedelta(hours=1)}, "exactly one of schedule and every"),
        ({"schedule": None, "every": timedelta(days=2_000_000)}, "every must be at most 1,157,407 days"),
        ({"time_zone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"catch_up": "some"}, "catch_up must be one of"),
        ({"key": ""}, "not empty"),
        ({"key": 5}, "not empty"),
        ({"key": "k" * 300}, "at most 255"),
        ({"key": "a\x00b"}, "NUL"),
        ({"args": (1, 2, 3)}, r"takes 2 positional arguments, but 3 were passed. Its signature is \(a, b=0\)"),
        ({"kwargs": {"unknown": 1}}, "has no argument 'unknown'"),
        ({"args": "abc"}, "args must be"),
        ({"queue_name": "q" * 300}, "(?i)queue"),
        ({"queue_name": ""}, "queue_name: the queue '' has an empty name"),
        ({"queue_name": " "}, "queue_name: the queue ' ' has an empty name"),
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


def test_all_problems_are_reported_together() -> None:
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


def listed(**options: Any) -> Options:
    plain = {"key": "nightly", "class_name": "tests.shop.tasks.anything", "schedule": "0 3 * * *"}
    return Options(recurring_tasks=[RecurringTask(**{**plain, **options})])


def test_the_recurring_tasks_of_the_options_replace_those_of_the_code() -> None:
    assert collect_recurrences(Options()) is recurrences
    assert collect_recurrences(Options(recurring_tasks=[])).entries() == []
    options = listed(arguments=[1, "two"], queue_name="mail", priority=5, description="why", time_zone="Asia/Tokyo")
    (entry,) = collect_recurrences(options).entries()
    assert (entry.task_key, entry.task_path, entry.schedule) == ("nightly", "tests.shop.tasks.anything", "0 3 * * *")
    assert (entry.queue_name, entry.priority, entry.description) == ("mail", 5, "why")
    assert (entry.time_zone, entry.catch_up) == ("Asia/Tokyo", "none")
    args, kwargs = arguments.loads(entry.arguments)
    assert (list(args), kwargs) == ([1, "two"], {})
    (entry,) = collect_recurrences(listed(arguments={"kwargs": {"a": 1}})).entries()
    assert arguments.loads(entry.arguments)[1] == {"a": 1}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"class_name": "tests.shop.tasks.nothing"}, "is not a task"),
        ({"class_name": "no.such.module.task"}, "not a task of an installed app"),
        ({"class_name": None}, "'nightly'"),
        ({"schedule": "61 * * * *"}, "out of range"),
        ({"schedule": None}, "exactly one of schedule and every"),
        ({"key": None}, "not empty"),
    ],
)
def test_what_is_wrong_with_what_the_options_list_is_named(options: dict[str, Any], says: str) -> None:
    assert says in "\n".join(collect_recurrences(listed(**options)).problems())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"command": "rm -r"}, "command is not supported"),
        ({"arguments": {"one": 1}}, "not 'one'"),
        ({"arguments": "one"}, "arguments must be a list"),
        ({"arguments": [object()]}, "plain JSON"),
        ({"arguments": [float("nan")]}, "plain JSON"),
        ({"arguments": [{"a": [{1: 2}]}]}, "with the key 1, but keys of plain JSON are strings"),
        ({"arguments": {"kwargs": {None: 2}}}, "with the key None"),
    ],
)
def test_problems_that_need_no_task_are_reported_with_the_options(options: dict[str, Any], says: str) -> None:
    (problem,) = listed(**options).problems()
    assert problem.startswith("recurring_tasks[0]: ")
    assert says in problem


def test_recurring_tasks_of_a_wrong_kind_are_named() -> None:
    assert list(Options(recurring_tasks={}).problems()) == ["recurring_tasks must be a list, not {}"]  # type: ignore[arg-type]
    (problem,) = Options(recurring_tasks=[{"key": "a"}]).problems()  # type: ignore[list-item]
    assert problem.startswith("recurring_tasks[0] must be Configuration.RecurringTask(...)")


def test_the_suite_itself_has_no_problems() -> None:
    assert list(recurrences.problems()) == []
