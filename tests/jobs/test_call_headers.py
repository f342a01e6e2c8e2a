"""What `using` sets for one call and a job stores in its headers: its timeout and its number of attempts."""

from __future__ import annotations

import json
import math
import pickle
from datetime import timedelta
from typing import Any

import pytest
from django.utils import translation

from steady_queue import task
from steady_queue.jobs.definition.policy import DEFAULT_POLICY, apply_headers, policy_of
from steady_queue.jobs.definition.task import SteadyQueueTask, TaskCall
from steady_queue.jobs.enqueueing.new_jobs import build_jobs
from tests.shop.tasks import add


def stored(task: SteadyQueueTask[..., Any]) -> Any:
    """The headers of a job of this task."""
    (job,) = build_jobs([TaskCall(task, (1,))])
    return None if job.headers is None else json.loads(job.headers)


def test_only_what_using_sets_is_stored_so_that_the_code_decides_about_the_rest() -> None:
    assert stored(add) is None
    assert stored(SteadyQueueTask(**{**_fields(add), "timeout": 5})) is None
    assert stored(add.using(timeout=timedelta(minutes=1))) == {"timeout": 60.0}
    assert stored(add.using(timeout=2).using(priority=3)) == {"timeout": 2}
    assert stored(add.using(timeout=2).using(max_attempts=3)) == {"timeout": 2, "max_attempts": 3}


def test_the_language_of_the_enqueuer_is_stored_with_it() -> None:
    with translation.override("de"):
        assert stored(add.using(timeout=2)) == {"locale": "de", "timeout": 2}


def test_calls_with_and_without_options_of_their_own_can_be_enqueued_together() -> None:
    calls = [TaskCall(task, (1,)) for task in (add, add.using(timeout=2), add)]
    assert [job.headers for job in build_jobs(calls)] == [None, '{"timeout": 2.0}', None]


def test_a_task_keeps_them_when_it_is_pickled() -> None:
    assert stored(pickle.loads(pickle.dumps(add.using(timeout=2)))) == {"timeout": 2}


@pytest.mark.parametrize("max_attempts", [1, 7, math.inf])
def test_a_worker_reads_what_was_stored(max_attempts: float) -> None:
    headers = stored(add.using(timeout=2.5, max_attempts=max_attempts))
    policy = apply_headers(DEFAULT_POLICY, headers)
    assert (policy.timeout_seconds, policy.max_attempts) == (2.5, max_attempts)
    assert apply_headers(DEFAULT_POLICY, {"locale": "de"}) is DEFAULT_POLICY


def test_a_task_and_a_call_opt_out_of_the_timeout_of_the_project() -> None:
    own = task(timeout=math.inf)(add.func)
    assert policy_of(own, {"timeout": 5}).timeout_seconds is None
    assert policy_of(add, {"timeout": 5}).timeout_seconds == 5
    headers = stored(add.using(timeout=math.inf))
    assert headers == {"timeout": None}
    assert apply_headers(policy_of(add, {"timeout": 5}), headers).timeout_seconds is None


def _fields(task: SteadyQueueTask[..., Any]) -> dict[str, Any]:
    names = ("func", "priority", "backend", "queue_name", "run_after", "takes_context")
    return {name: getattr(task, name) for name in names}
