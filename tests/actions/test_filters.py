"""Retry and discard of all tasks that match a filter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from steady_queue import actions
from steady_queue.store.operations.actions import bulk_actions
from steady_queue.store.outcome import ErrorReport, Failed
from tests.shop import tasks
from tests.support.databases.tables import count, counts, query
from tests.support.store.jobs import fail_jobs, job, later, limited

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob
    from tests.actions.conftest import Caller
    from tests.support.store.stores import SyncStore

DAY = timedelta(days=1)


def failed_with(store: SyncStore, error: str, *jobs: NewJob) -> None:
    store.settle(*(Failed(claim, ErrorReport(error, "", "")) for claim in store.claimed(*jobs)))


@pytest.fixture(params=[500, 3])
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The rows in one transaction: all at once, and a few."""
    for function in (bulk_actions.retry_window, bulk_actions.discard_window):
        monkeypatch.setitem(cast("Any", function.flow).__kwdefaults__, "size", request.param)
    return int(request.param)


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ({}, 12),
        ({"queue": "mail"}, 3),
        ({"task": tasks.add}, 4),
        ({"task": "tests.shop.tasks.add", "queue": "mail"}, 1),
        ({"exception": KeyError}, 6),
        ({"exception": "builtins.KeyError", "queue": "mail"}, 2),
        ({"queue": "x%' OR 1=1--"}, 0),
        ({"queue": "MAIL"}, 0),
        ({"failed_before": datetime.now(UTC) - DAY}, 0),
        ({"failed_after": datetime.now(UTC) - DAY, "exception": ValueError}, 6),
        ({"failed_before": datetime.now(UTC) + DAY, "failed_after": datetime.now(UTC) - DAY}, 12),
    ],
)
def test_jobs_that_match_the_filter_are_retried(
    store: SyncStore, window: int, description: dict[str, Any], expected: int
) -> None:
    jobs = [
        job(
            queue_name="mail" if n % 4 == 0 else "default",
            task_path=tasks.add.module_path if n % 3 == 0 else tasks.greet.module_path,
        )
        for n in range(12)
    ]
    failed_with(store, "builtins.KeyError", *jobs[:6])
    failed_with(store, "builtins.ValueError", *jobs[6:])
    assert actions.retry_where(**description) == expected
    left = {"ready": expected, "failed": 12 - expected}
    assert counts(store.alias) == {status: number for status, number in left.items() if number}


def test_the_async_form_does_the_same(store: SyncStore, caller: Caller) -> None:
    fail_jobs(store, *[limited() for _ in range(1)], *[job(queue_name="mail") for _ in range(5)])
    assert caller("retry_where", queue="mail") == 5
    assert caller("discard_where", "ready", "failed", "blocked") == 6
    assert count(store.alias, "job") == 0


def test_a_retry_begun_again_goes_on_with_the_rest(
    store: SyncStore, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job() for _ in range(10)]
    fail_jobs(store, *jobs)
    places: list[bulk_actions.Position] = []
    original = bulk_actions.retry_window

    def interrupted(sql: Any, which: Any, place: bulk_actions.Position, **options: Any) -> Any:
        places.append(place)
        if len(places) == 3:
            raise KeyboardInterrupt
        return original(sql, which, place, **options)

    if window < 10:
        monkeypatch.setattr(bulk_actions, "retry_window", interrupted)
        with pytest.raises(KeyboardInterrupt):
            actions.retry_where()
        assert counts(store.alias) == {"ready": 6, "failed": 4}
    left = counts(store.alias)["failed"]
    places[:] = [bulk_actions.Position()] * 9
    assert actions.retry_where() == left
    assert counts(store.alias) == {"ready": 10}


def test_each_status_is_discarded_alone(store: SyncStore, window: int) -> None:
    fail_jobs(store, *[job() for _ in range(4)])
    store.enqueue(*[job() for _ in range(5)], *[job(scheduled_at=later()) for _ in range(6)])
    store.enqueue(*[limited() for _ in range(8)])
    for status, number in (("blocked", 7), ("scheduled", 6), ("failed", 4), ("ready", 6)):
        assert actions.discard_where(status) == number
        assert status not in counts(store.alias)
    assert (count(store.alias, "job"), count(store.alias, "semaphore")) == (0, 0)


def test_jobs_that_become_ready_because_others_were_discarded_stay(store: SyncStore, window: int) -> None:
    jobs = [limited(f"key {n % 4}") for n in range(40)]
    store.enqueue(*jobs)
    assert actions.discard_where("ready") == 4
    assert counts(store.alias) == {"ready": 4, "blocked": 32}


def test_discarding_is_limited_by_queue_and_task(store: SyncStore, window: int) -> None:
    store.enqueue(
        *[job(queue_name=name, scheduled_at=at) for name in ("a", "b") for at in (None, later()) for _ in "xyz"]
    )
    assert actions.discard_where("ready", "scheduled", queue="a", task=tasks.add) == 0
    assert actions.discard_where("ready", "scheduled", queue="a", task="tests.shop.tasks.noop") == 6
    assert counts(store.alias) == {"ready": 3, "scheduled": 3}


@pytest.mark.parametrize(
    ("statuses", "options", "problem"),
    [
        ((), {}, "say which tasks"),
        (("claimed",), {}, "can be discarded, not claimed"),
        (("finished", "ready"), {}, "can be discarded, not finished"),
        (("ready",), {"exception": ValueError}, "apply to failed tasks only"),
        (("failed",), {"queue": "a\x00"}, "NUL"),
        (("failed",), {"queue": 5}, "the queue must be a string, not int"),
        (("failed",), {"task": "x" * 300}, "300 characters"),
        (("failed",), {"failed_before": "yesterday"}, "failed_before must be a datetime, not str"),
        (("failed",), {"exception": 5}, "a class or its dotted path, not 5"),
        (("failed",), {"exception": ValueError("x")}, "a class or its dotted path"),
    ],
)
def test_a_wrong_description_is_refused(statuses: tuple[str, ...], options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        actions.discard_where(*statuses, **options)


# -- a queue ----------------------------------------------------------------------------------------------------------


def test_clearing_a_queue_discards_its_ready_tasks_only(store: SyncStore, caller: Caller, window: int) -> None:
    fail_jobs(store, job(queue_name="mail"))
    ready = [job(queue_name="mail", priority=n % 3 - 1, lane=n % 2) for n in range(20)]
    others = [job(), job(queue_name="mail", scheduled_at=later()), job(queue_name="mai"), job(queue_name="MAIL")]
    store.enqueue(*ready, *others)
    (claim,) = store.claim(store.worker(), queues=["mail"])
    assert caller("clear_queue", "mail") == 19
    assert counts(store.alias) == {"ready": 3, "scheduled": 1, "claimed": 1, "failed": 1}
    assert caller("clear_queue", "mail") == 0
    assert claim.queue_name == "mail"


def test_clearing_a_queue_passes_its_slots_on_and_leaves_who_gets_them(store: SyncStore, window: int) -> None:
    jobs = [limited(f"key {n % 5}", queue_name="mail", priority=n % 2) for n in range(30)]
    store.enqueue(*jobs)
    assert actions.clear_queue("mail") == 5
    assert counts(store.alias) == {"ready": 5, "blocked": 20}
    assert count(store.alias, "semaphore") == 5
    assert query(store.alias, "SELECT count(DISTINCT concurrency_key) FROM steady_queue_semaphore") == [(5,)]
