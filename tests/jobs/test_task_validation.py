"""Tasks that are refused: by the decorator, by `using`, and at enqueue."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings
from django.utils import timezone

from steady_queue import enqueue_all, exponential, fixed, steps, task
from steady_queue.backend import SteadyQueueBackend
from steady_queue.jobs.compat import InvalidTask, InvalidTaskBackend
from tests.jobs.helpers import DECORATORS
from tests.shop import framework_tasks, tasks
from tests.support.databases.tables import count

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.enqueue import Put

pytestmark = pytest.mark.contract

OURS = "steady_queue.backend.SteadyQueueBackend"


def plain(a: int = 0) -> int:
    return a


async def awaited() -> None:
    pass


async def fresh_coroutine_function() -> None:
    pass


class Holder:
    def method(self) -> None:
        pass


# -- what is refused --------------------------------------------------------------------------------------------------


def nested() -> Callable[[], None]:
    def inner() -> None:
        pass

    return inner


@DECORATORS
@pytest.mark.parametrize(
    "function",
    [len, Holder().method, nested(), partial(plain, 1), Holder, None],
    ids=["builtin", "method", "nested", "partial", "class", "nothing"],
)
def test_what_is_not_a_function_of_a_module_is_refused(decorator: Any, function: Any) -> None:
    with pytest.raises(InvalidTask):
        decorator()(function)


@DECORATORS
@pytest.mark.parametrize("function", [plain, awaited])
def test_a_task_with_context_must_have_context_as_its_first_parameter(decorator: Any, function: Any) -> None:
    with pytest.raises(InvalidTask, match="context"):
        decorator(takes_context=True)(function)


@pytest.mark.parametrize("priority", [-100, -1, 0, 1, 100, 5.0, True])
def test_whole_priorities_within_the_range_are_accepted(priority: Any) -> None:
    assert task(priority=priority)(plain).priority == priority
    assert tasks.add.using(priority=priority).priority == priority
    assert tasks.send_mail.using(priority=priority).priority == priority


@pytest.mark.parametrize("priority", [-101, 101, 0.5, math.nan, math.inf, -math.inf, "5", [], 10**400], ids=str)
def test_other_priorities_are_refused(priority: Any) -> None:
    with pytest.raises(InvalidTask, match="priority"):
        task(priority=priority)(nested)
    with pytest.raises(InvalidTask, match="priority"):
        tasks.add.using(priority=priority)


def test_a_naive_run_after_is_refused_where_time_zones_are_used() -> None:
    with pytest.raises(InvalidTask, match="aware"):
        tasks.add.using(run_after=datetime(2040, 1, 1))
    with override_settings(USE_TZ=False):
        assert tasks.add.using(run_after=datetime(2040, 1, 1)).run_after == datetime(2040, 1, 1)


@pytest.mark.parametrize("moment", ["tomorrow", 5, date(2040, 1, 1)], ids=str)
@pytest.mark.parametrize("use_tz", [True, False])
def test_a_run_after_that_is_no_moment_is_refused(moment: Any, use_tz: bool) -> None:
    says = re.escape(f"run_after must be a datetime or a timedelta, not {moment!r}")
    with override_settings(USE_TZ=use_tz), pytest.raises(InvalidTask, match=says):
        tasks.add.using(run_after=moment)


def test_the_value_of_a_wrong_option_is_named_and_cut() -> None:
    high: Any = "high"
    with pytest.raises(InvalidTask, match=r"^priority must be a whole number between -100 and 100, not 'high'$"):
        tasks.add.using(priority=high)
    with pytest.raises(InvalidTask) as caught:
        tasks.add.using(priority=high * 10_000)
    assert len(str(caught.value)) < 250


@DECORATORS
@pytest.mark.parametrize("name", [None, 5, ["default"]], ids=str)
def test_a_queue_name_that_is_no_string_is_refused(decorator: Any, name: Any) -> None:
    with pytest.raises(InvalidTask, match=re.escape(f"queue_name must be a string, not {name!r}")):
        decorator(queue_name=name)(plain)


@pytest.mark.parametrize("name", ["nope", 5, None], ids=str)
def test_a_backend_that_is_not_in_the_settings_is_refused_with_those_that_are(name: Any) -> None:
    says = re.escape(f"TASKS in settings.py has no entry {name!r}; its entries are: 'default', 'anything'")
    with pytest.raises(InvalidTaskBackend, match=says):
        task(backend=name)(plain)
    if name is not None:  # `using` leaves the option unchanged
        with pytest.raises(InvalidTaskBackend, match=says):
            tasks.add.using(backend=name)


def test_a_backend_that_cannot_be_imported_keeps_its_message() -> None:
    entry = {"BACKEND": "steady_queue.bakend.SteadyQueueBackend"}
    says = r"Could not find backend 'steady_queue\.bakend"
    with override_settings(TASKS={"default": entry}), pytest.raises(InvalidTaskBackend, match=says) as caught:
        task(plain)
    assert str(caught.value).endswith("The backend of Steady Queue is 'steady_queue.backend.SteadyQueueBackend'")
    with override_settings(TASKS={"default": {"BACKEND": "shop.steady_queue.Backend"}}):
        with pytest.raises(InvalidTaskBackend) as caught:
            task(plain)
        assert "The backend of Steady Queue" not in str(caught.value)


def test_a_nested_function_is_named_with_what_to_do() -> None:
    with pytest.raises(InvalidTask, match=r"nested\.<locals>\.inner cannot be a task, .*top level of a module"):
        task(nested())


@DECORATORS
@pytest.mark.parametrize("function", [Holder.method, lambda: None], ids=["of a class", "lambda"])
def test_a_function_that_no_worker_could_import_is_refused(decorator: Any, function: Any) -> None:
    with pytest.raises(InvalidTask, match="cannot be a task, because a worker imports a task by its path"):
        decorator()(function)


async def numbers() -> AsyncIterator[int]:
    yield 1


def test_a_generator_is_refused() -> None:
    with pytest.raises(InvalidTask, match="numbers: a generator function cannot be a task"):
        task(numbers)


# -- the flags of a subclass ------------------------------------------------------------------------------------------


class Limited(SteadyQueueBackend):
    """A backend of a project, which allows less."""

    supports_async_task = False
    supports_priority = False
    supports_defer = False


@pytest.mark.parametrize("is_known", [True, False])
def test_the_flags_of_a_subclass_are_honoured(is_known: bool) -> None:
    function = awaited if is_known else fresh_coroutine_function
    if is_known:
        task(function)  # inspected before, for a backend that supports it
    with override_settings(TASKS={"default": {"BACKEND": f"{__name__}.Limited"}, "ours": {"BACKEND": OURS}}):
        assert task(plain).using(queue_name="default").func is plain
        with pytest.raises(InvalidTask, match=r"test_task_validation\.\w+: .*async"):
            task(function)
        with pytest.raises(InvalidTask, match="Limited does not support priorities; leave out priority=5"):
            task(plain).using(priority=5)
        with pytest.raises(InvalidTask, match="Limited does not support run_after"):
            task(plain).using(run_after=timedelta(seconds=5))
        # What is refused here is accepted by a backend that supports it.
        assert task(backend="ours")(function).using(priority=5, run_after=timedelta(seconds=5)).priority == 5


def test_the_flags_are_honoured_at_enqueue(database: str, put: Put) -> None:
    with override_settings(TASKS={"default": {"BACKEND": f"{__name__}.Limited"}}):
        for name, value in (("priority", 5), ("run_after", timezone.now())):
            changed = tasks.add.using()
            object.__setattr__(changed, name, value)
            with pytest.raises(InvalidTask, match="does not support"):
                put(changed, 1)
        with pytest.raises(InvalidTask, match="async"):
            put(tasks.greet, "Ada")
    assert count(database, "job") == 0


@pytest.mark.parametrize("name", ["unknown", "Default"])
def test_a_queue_that_is_not_in_the_settings_is_refused(name: str) -> None:
    says = f"the queue '{name}' is not valid for backend 'default'.* Its queues are 'default', 'mail', .*QUEUES"
    with pytest.raises(InvalidTask, match=says):
        tasks.add.using(queue_name=name)


def test_the_queue_that_was_probably_meant_is_named() -> None:
    with pytest.raises(InvalidTask, match=r"'mial' is not valid for backend 'default'; did you mean 'mail'\?"):
        tasks.add.using(queue_name="mial")


@pytest.mark.parametrize("name", ["whatever", "Ünïcödé 😀", "a b", "x" * 255])
def test_without_queues_in_the_settings_any_name_is_accepted(name: str, database: str, put: Put) -> None:
    result = put(tasks.add.using(backend="anything", queue_name=name), 1)
    assert tasks.add.get_result(result.id).task.queue_name == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("x" * 256, "256 characters"),
        ("a\x00b", "NUL"),
        ("a\ud800", "surrogate"),
        (5, "queue_name must be a string, not 5"),
    ],
    ids=["too long", "NUL", "lone surrogate", "no text"],
)
def test_a_name_that_cannot_be_stored_is_refused(name: Any, reason: str) -> None:
    with pytest.raises(InvalidTask, match=reason):
        tasks.add.using(backend="anything", queue_name=name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((" mail", "whitespace"), ("mail\t", "whitespace"), ("default ", "whitespace"), ("a*b", "asterisk")),
        *(("", "an empty name"), (" ", "an empty name"), ("\n\t", "an empty name"), ("\u3000", "an empty name")),
    ],
)
@pytest.mark.parametrize("backend", ["default", "anything"])
def test_a_name_that_no_worker_option_can_express_is_refused(backend: str, name: str, reason: str) -> None:
    says = f"queue_name: the queue {re.escape(repr(name))} has .*{reason}"
    with pytest.raises(InvalidTask, match=says):
        tasks.add.using(backend=backend, queue_name=name)
    for decorator in (task, framework_tasks.task):
        with pytest.raises(InvalidTask, match=says):
            decorator(backend=backend, queue_name=name)(plain)


# -- validation at enqueue --------------------------------------------------------------------------------------------


def test_validation_is_repeated_at_enqueue(database: str, put: Put) -> None:
    with override_settings(TASKS={"default": {"BACKEND": OURS, "QUEUES": ["default"]}}):
        assert put(tasks.add, 1).task == tasks.add
        with pytest.raises(InvalidTask, match="mail"):
            put(tasks.send_mail, "ada@example.com")
    assert count(database, "job") == 1


def test_a_task_that_was_changed_after_validation_is_refused_at_enqueue(database: str, put: Put) -> None:
    broken = tasks.add.using()
    object.__setattr__(broken, "priority", 101)
    with pytest.raises(InvalidTask, match="priority"):
        put(broken, 1)
    assert count(database, "job") == 0


def test_a_queue_name_that_was_emptied_after_validation_is_refused_at_enqueue(database: str, put: Put) -> None:
    nameless = tasks.add.using(backend="anything")
    object.__setattr__(nameless, "queue_name", "")
    with pytest.raises(InvalidTask, match="queue_name: the queue '' has an empty name"):
        put(nameless, 1)
    with pytest.raises(InvalidTask, match="queue_name: the queue '' has an empty name"):
        enqueue_all([tasks.add.using(backend="anything").bind(1), nameless.bind(2)])
    assert count(database, "job") == 0


@pytest.mark.parametrize("value", [(), []])
def test_a_task_that_retries_no_exception_is_refused(value: Any) -> None:
    with pytest.raises(InvalidTask, match="retry_on must not be empty: to retry no exception, set max_attempts to 1"):
        task(max_attempts=3, retry_on=value)(plain)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (exponential, r"backoff must be the result of a call, exponential\(...\), not the function itself"),
        (fixed, r"backoff must be the result of a call, fixed\(...\)"),
        (steps, r"backoff must be the result of a call, steps\(...\)"),
        (lambda: 1, "backoff must be a function of the exception and the task's result"),
        (lambda error: 1, "backoff must be a function of the exception and the task's result"),
        (5, "backoff must be a function of the exception and the task's result"),
    ],
)
def test_a_backoff_that_cannot_be_called_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(InvalidTask, match=problem):
        task(max_attempts=3, backoff=value)(plain)


class Backoff:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, *args: Any) -> float:
        return 1


def test_a_task_with_any_backoff_can_be_hashed() -> None:
    made = task(max_attempts=3, backoff=Backoff())(plain)
    assert hash(made) == hash(task(max_attempts=3, backoff=fixed(1))(plain))


def test_a_task_with_lists_of_exceptions_can_be_hashed() -> None:
    classes: Any = [ValueError, KeyError]
    made = task(max_attempts=3, retry_on=classes, give_up_on=classes)(plain)
    assert (made.retry_on, made.give_up_on) == ((ValueError, KeyError), (ValueError, KeyError))
    assert hash(made) == hash(task(max_attempts=3, retry_on=classes, give_up_on=classes)(plain))
