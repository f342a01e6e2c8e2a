"""The unique key of a task as it is shown. A digest of secrets gives them away: each guess can be checked with it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import Unique, enqueue_all, task
from steady_queue.errors import DuplicateTask
from steady_queue.jobs.definition.task import TaskCall
from steady_queue.jobs.enqueueing.new_jobs import build_jobs
from steady_queue.models import Job
from steady_queue.monitoring.jobs.argument_text import PARSED_CHARACTERS
from steady_queue.monitoring.jobs.detail import find_detail
from steady_queue.monitoring.jobs.json_values import detail_as_json
from steady_queue.monitoring.jobs.unique_key_text import show_unique_key
from tests.management.shell import shell
from tests.shop.models import Customer
from tests.shop.tasks import add, anything, with_context

if TYPE_CHECKING:
    from steady_queue.jobs.definition.task import SteadyQueueTask

pytestmark = pytest.mark.usually_on("sqlite")


def digest_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


@task(unique=Unique())
def unlocks(door: str, pin: int, *more: Any, colour: str | None = "red", **others: Any) -> None: ...


@task(unique=Unique(key=lambda name, pin=None: digest_of(name)))
def has_own_digest(name: str, pin: Any = None) -> None: ...


def stored_key(one: SteadyQueueTask[..., Any], *args: Any, **kwargs: Any) -> tuple[str, str, str]:
    """The key of a call, the path and the arguments as they are stored."""
    (job,) = build_jobs([TaskCall(one, args, kwargs)])
    return str(job.unique_key), job.task_path, job.arguments


def test_the_digest_of_all_arguments_is_shown_nowhere(database: str) -> None:
    result = unlocks.enqueue("front", pin=4711)
    key = str(Job.objects.using(database).get(id=result.id).unique_key)
    digest = key.rpartition("/")[2]
    assert len(digest) == 64

    detail = find_detail(result.id)
    assert detail is not None
    assert detail.unique_key == detail.raw["unique_key"] == "all arguments"
    for shown in (repr(detail), json.dumps(detail_as_json(detail))):
        assert digest not in shown
    for words in ([result.id], [result.id, "--json"], ["--json"], []):
        assert digest not in shell("jobs", *words).out


def test_the_digest_is_in_no_message_about_a_task_that_has_the_key(database: str) -> None:
    first = unlocks.enqueue("front", pin=4711)
    digest = str(Job.objects.using(database).get().unique_key).rpartition("/")[2]
    again = unlocks.bind("front", pin=4711)
    for calls, what in (([again], f"{unlocks.module_path} was"), ([again, add.bind(1)], "2 tasks were")):
        with pytest.raises(DuplicateTask) as refused:
            enqueue_all(calls)
        message = str(refused.value)
        assert message == f"{what} not stored: the unique key of all arguments is taken by the task {first.id}"
        assert digest not in message
    named = has_own_digest.using(unique=Unique(key="mine"))
    named.enqueue("front")
    with pytest.raises(DuplicateTask, match=f"the unique key '{has_own_digest.module_path}/mine' is taken"):
        named.enqueue("front")


def test_a_key_of_the_project_is_shown_even_if_it_is_a_digest(database: str) -> None:
    result = has_own_digest.enqueue("name")
    detail = find_detail(result.id)
    assert detail is not None
    assert detail.unique_key == detail.raw["unique_key"] == f"{has_own_digest.module_path}/{digest_of('name')}"
    named = anything.using(unique=Unique(key=lambda pin: f"for {pin}"))
    key, path, text = stored_key(named, 4711)
    assert show_unique_key(key, path, text) == f"{anything.module_path}/for 4711"


def test_a_digest_of_all_arguments_is_not_shown_of_a_task_that_has_a_key_of_its_own_otherwise(database: str) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    each = has_own_digest.using(unique=Unique())
    for pin in (None, 1, ada, {2: "x", "y": {1, 2}}, (3, [4]), "long" * 1_000):
        key, path, text = stored_key(each, "name", pin=pin)
        assert show_unique_key(key, path, text) == "all arguments"
        assert show_unique_key(stored_key(each, "name", pin)[0], path, text) == "all arguments"
    assert show_unique_key(*stored_key(each, "name")) == "all arguments"
    assert show_unique_key(key, path, None) == "all arguments"


def test_a_digest_is_not_shown_where_it_is_not_known_whose_it_is(database: str) -> None:
    digest = "0" * 64
    for path in ("no.such.task", has_own_digest.module_path, anything.module_path, with_context.module_path):
        for text in ("not JSON", "[9]", '[1,["a","b","c","d"],{}]', None):
            assert show_unique_key(f"{path}/{digest}", path, text) == "all arguments", (path, text)
    result = has_own_digest.enqueue("name", "x" * PARSED_CHARACTERS)
    detail = find_detail(result.id)
    assert detail is not None
    assert detail.unique_key == "all arguments"


@pytest.mark.parametrize(
    "key", ["", "a/b", f"other/{'0' * 64}", f"no.such.task/x/{'0' * 64}", f"no.such.task/{'0' * 65}"]
)
def test_other_keys_are_shown_as_they_are(key: str) -> None:
    assert show_unique_key(key, "no.such.task", None) == key
