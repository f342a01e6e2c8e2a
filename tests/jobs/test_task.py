"""Tasks: what the decorators make, what `using` changes, and the limits of a task."""

from __future__ import annotations

import asyncio
import copy
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction
from django.template import Context, Engine
from django.test import override_settings
from django.utils import timezone
from django.utils.module_loading import import_string

from steady_queue import SteadyQueueTask, task
from steady_queue.backend import SteadyQueueBackend
from steady_queue.concurrency import limits_concurrency
from steady_queue.errors import ConfigurationError
from steady_queue.jobs.compat import FRAMEWORK, InvalidTask, InvalidTaskBackend, Task
from tests.jobs.helpers import DECORATORS
from tests.shop import framework_tasks, tasks

if TYPE_CHECKING:
    from tests.support.enqueue import Put

pytestmark = pytest.mark.contract

OURS = "steady_queue.backend.SteadyQueueBackend"


ALL_TASKS: list[Any] = [tasks.add, tasks.greet, tasks.charge, framework_tasks.multiply, framework_tasks.total]


def plain(a: int = 0) -> int:
    return a


def with_context(context: object) -> None:
    pass


# -- the decorator ----------------------------------------------------------------------------------------------------


@DECORATORS
def test_the_decorator_works_bare_and_with_parentheses(decorator: Any) -> None:
    for made in (decorator(plain), decorator()(plain)):
        assert isinstance(made, SteadyQueueTask)
        assert (made.func, made.priority, made.queue_name, made.backend) == (plain, 0, "default", "default")
        assert (made.run_after, made.takes_context, made.enqueue_on_commit) == (None, False, True)


@DECORATORS
def test_the_decorator_takes_the_options_of_the_framework_and_ours(decorator: Any) -> None:
    made = decorator(priority=7, queue_name="mail", backend="anything", takes_context=True, enqueue_on_commit=False)(
        with_context
    )
    assert (made.priority, made.queue_name, made.backend, made.takes_context) == (7, "mail", "anything", True)
    assert made.enqueue_on_commit is False


@DECORATORS
@pytest.mark.parametrize("options", [{"colour": "red"}, {"run_after": datetime(2030, 1, 1, tzinfo=UTC)}])
def test_the_decorator_refuses_options_it_does_not_know_and_run_after(decorator: Any, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        decorator(**options)(plain)


@pytest.mark.parametrize("made", ALL_TASKS, ids=lambda made: made.name)
def test_name_and_path_lead_back_to_the_same_task(made: Task[..., Any]) -> None:
    assert made.name == made.func.__name__
    assert made.module_path == f"{made.func.__module__}.{made.name}"
    assert import_string(made.module_path) is made


@pytest.mark.parametrize("made", ALL_TASKS, ids=lambda made: made.name)
def test_a_task_keeps_its_function_to_be_called_directly(made: Task[..., Any]) -> None:
    assert callable(made.func)
    assert tasks.add.call(2, b=3) == 5
    greeting: Any = asyncio.run(tasks.greet.acall("Ada"))
    assert greeting == "Hello, Ada!"


@pytest.mark.parametrize("backend", ["dummy.DummyBackend", "immediate.ImmediateBackend"])
def test_the_same_decorator_works_with_a_backend_of_the_framework(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"default": {"BACKEND": OURS}, "test": {"BACKEND": f"{FRAMEWORK}.backends.{backend}"}}
    with override_settings(TASKS=settings):
        made: Any = task(backend="test", enqueue_on_commit=False)(plain)
        monkeypatch.setitem(globals(), "plain", made)
        assert not isinstance(made, SteadyQueueTask)
        assert made.enqueue(3).args == [3]
        assert tasks.add.using(backend="test").enqueue(1).args == [1]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTask(SteadyQueueTask[..., Any]):
    audit: str = ""


class AuditedBackend(SteadyQueueBackend):
    task_class = AuditedTask  # type: ignore[assignment]


def test_a_task_class_of_ones_own_gets_the_options_of_the_decorator(
    database: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    with override_settings(TASKS={"default": {"BACKEND": f"{__name__}.AuditedBackend"}}):
        made = framework_tasks.task(audit="money", enqueue_on_commit=False)(plain)
        monkeypatch.setitem(globals(), "plain", made)
        assert (type(made), made.audit, made.enqueue_on_commit) == (AuditedTask, "money", False)
        assert made.using(priority=3).audit == "money"
        assert pickle.loads(pickle.dumps(made)) == made
        assert made.get_result(put(made.using(priority=3), 1).id).task == made.using(priority=3)
        with pytest.raises(TypeError, match="colour"):
            framework_tasks.task(colour="red")(plain)


# -- using ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", ALL_TASKS, ids=lambda made: made.name)
def test_using_nothing_gives_an_equal_task_that_is_another_object(made: Task[..., Any]) -> None:
    same = made.using()
    assert same == made
    assert hash(same) == hash(made)
    assert same is not made


def test_using_changes_what_is_named_and_leaves_the_original_alone() -> None:
    moment = datetime(2040, 1, 1, tzinfo=UTC)
    changed = tasks.send_mail.using(
        priority=-3, queue_name="reports", run_after=moment, backend="anything", enqueue_on_commit=False
    )
    assert (changed.priority, changed.queue_name, changed.run_after) == (-3, "reports", moment)
    assert (changed.backend, changed.enqueue_on_commit, changed.func) == ("anything", False, tasks.send_mail.func)
    assert (tasks.send_mail.priority, tasks.send_mail.queue_name, tasks.send_mail.run_after) == (10, "mail", None)


def test_chained_using_accumulates() -> None:
    chained = tasks.send_mail.using(priority=5).using(queue_name="reports").using(priority=0)
    assert (chained.priority, chained.queue_name) == (0, "reports")


def test_using_keeps_the_limit_of_a_limited_task() -> None:
    assert tasks.charge.using(priority=5).concurrency is tasks.charge.concurrency


@pytest.mark.parametrize("delay", [timedelta(hours=1), timedelta(microseconds=1), timedelta(days=-1)])
def test_a_timedelta_counts_from_now_and_becomes_an_aware_datetime(delay: timedelta) -> None:
    before = timezone.now()
    moment = tasks.add.using(run_after=delay).run_after
    assert moment is not None
    assert before + delay <= moment <= timezone.now() + delay
    assert timezone.is_aware(moment)


def test_a_timedelta_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(InvalidTask, match="run_after"):
        tasks.add.using(run_after=timedelta.max)


def test_a_datetime_is_kept_as_it_is() -> None:
    moment = datetime(2040, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
    assert tasks.add.using(run_after=moment).run_after is moment


@pytest.mark.parametrize("made", ALL_TASKS, ids=lambda made: made.name)
def test_an_unknown_backend_is_refused(made: Task[..., Any]) -> None:
    with pytest.raises(InvalidTaskBackend):
        made.using(backend="unknown")


def test_a_backend_that_cannot_be_imported_is_refused() -> None:
    with (
        override_settings(TASKS={"default": {"BACKEND": "steady_queue.missing.Backend"}}),
        pytest.raises(InvalidTaskBackend),
    ):
        tasks.add.using(priority=1)


def test_using_refuses_options_it_does_not_know() -> None:
    with pytest.raises(TypeError, match="colour"):
        tasks.add.using(colour="red")  # type: ignore[call-arg]


# -- limits -----------------------------------------------------------------------------------------------------------


def test_limited_tasks_carry_their_limit_and_plain_ones_none() -> None:
    assert tasks.add.concurrency is None
    assert tasks.greet.concurrency is None
    limit = tasks.export.concurrency
    assert limit is not None
    assert (limit.key, limit.to, limit.group) == ("export", 2, "exports")


@pytest.mark.parametrize(
    "options",
    [
        {"key": None},
        {"key": 5},
        {"key": "k", "to": 0},
        {"key": "k", "to": -1},
        {"key": "k", "to": 1.5},
        {"key": "k", "to": "2"},
        {"key": "k", "to": True},
        {"key": "k", "on_conflict": "explode"},
        {"key": "k", "on_conflict": None},
        {"key": "k", "on_conflict": ["block"]},
        {"key": "k", "on_overrun": "renew"},
        {"key": "k", "on_overrun": None},
        {"key": "k", "duration": 5},
        {"key": "k", "duration": timedelta(0)},
        {"key": "k", "duration": timedelta(seconds=-1)},
        {"key": "k", "duration": timedelta.max},
        {"key": "k", "group": ""},
        {"key": "k", "group": 5},
        {"key": "k", "group": "x" * 600},
        {"key": "k", "group": "\x00"},
    ],
    ids=str,
)
def test_bad_options_of_a_limit_are_refused_and_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=list(options)[-1]):
        limits_concurrency(**options)


def test_a_key_that_would_have_to_be_awaited_is_refused() -> None:
    async def key(account: int) -> int:
        return account

    with pytest.raises(ConfigurationError, match="key must not be an async function"):
        limits_concurrency(key=key)


def test_all_problems_of_a_limit_are_reported_together() -> None:
    with pytest.raises(ConfigurationError, match=r"key .*to .*duration .*group .*on_conflict .*on_overrun"):
        limits_concurrency(None, 0, 0, 0, 0, 0)  # type: ignore[arg-type]


def test_the_options_of_a_limit_come_in_the_order_of_the_seed() -> None:
    limit = limits_concurrency("k", 2, timedelta(minutes=5), "g", "discard", "release")(tasks.add).concurrency
    assert limit is not None
    assert (limit.key, limit.to, limit.duration, limit.group) == ("k", 2, timedelta(minutes=5), "g")
    assert (limit.on_conflict.name, limit.releases_on_overrun, limit.period) == ("DISCARD", True, timedelta(minutes=5))


@pytest.mark.parametrize("given", [plain, None, 5])
def test_a_limit_below_the_decorator_of_the_task_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="above @task"):
        limits_concurrency(key="k")(given)


def test_a_limit_is_left_out_with_a_backend_of_the_framework() -> None:
    settings = {"default": {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"}}
    with override_settings(TASKS=settings):
        made = task(plain)
        assert limits_concurrency(key="k")(made) is made


def test_a_task_is_not_callable() -> None:
    """A template would call it, and `on_commit(task)`, where enqueue was forgotten, would fail after the commit."""
    add: Any = tasks.add
    template = Engine().from_string("{{ task.name }} {% if task %}{{ task.queue_name }}{% endif %}")
    assert template.render(Context({"task": add})) == "add default"
    with pytest.raises(TypeError, match="callable"):
        transaction.on_commit(add)
    with pytest.raises(TypeError, match="not callable"):
        add(1, b=2)


@pytest.mark.parametrize("name", ["delay", "apply_async", "send"])
def test_the_names_of_other_packages_lead_to_enqueue(name: str) -> None:
    text = rf"the task tests\.shop\.tasks\.add has no attribute '{name}': enqueue it with \.enqueue"
    with pytest.raises(AttributeError, match=text):
        getattr(tasks.add, name)


def test_an_attribute_that_a_task_lacks_is_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match=r"the task tests\.shop\.tasks\.add has no attribute 'enque'$") as caught:
        _ = tasks.add.enque  # type: ignore[attr-defined]
    assert (caught.value.name, caught.value.obj) == ("enque", tasks.add)
    with pytest.raises(AttributeError, match="func"):  # an object that is not complete has no path either
        _ = object.__new__(type(tasks.add)).enque  # type: ignore[attr-defined]
    assert not hasattr(tasks.add, "anything_else")
    assert copy.deepcopy(tasks.add) == pickle.loads(pickle.dumps(tasks.add)) == tasks.add


@pytest.mark.parametrize(
    ("option", "hint"),
    [("queue", "the options are priority, queue_name"), ("run_after", r"set it for a call, with \.using\(run_after")],
)
def test_an_option_that_the_decorator_lacks_is_named_with_a_hint(option: str, hint: str) -> None:
    decorator: Any = task
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{option}': {hint}"):
        decorator(**{option: "mail"})
