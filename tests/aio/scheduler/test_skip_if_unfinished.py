"""`skip_if_unfinished`: a tick is left out while the job of an earlier tick waits or runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import Unique, schedule_recurring_task
from steady_queue.errors import ConfigurationError
from steady_queue.models import RecurringTask
from steady_queue.recurring.definitions import Recurrence
from steady_queue.store.job import OnDuplicate, Uniqueness, Until
from steady_queue.store.operations.recurring.ticks import Tick, enqueue_ticks
from steady_queue.store.outcome import Finished
from tests.shop.tasks import add, greet
from tests.support.databases.tables import count, counts
from tests.support.store.jobs import job, unique
from tests.support.store.recurring import entry, persist_entries, read_stored
from tests.support.store.stores import SyncStore
from tests.support.threads import together

if TYPE_CHECKING:
    from steady_queue.store.operations.recurring.ticks import EnqueuedTicks

AT = datetime(2030, 1, 1, tzinfo=UTC)
SKIP = Uniqueness(Until.FINISHED, OnDuplicate.SKIP)


def tick(store: SyncStore, *minutes: int, rule: Uniqueness = SKIP, **options: Any) -> EnqueuedTicks:
    """Enqueue ticks of the entry, as a scheduler does."""
    (found,) = read_stored(store)
    jobs = [unique("recurring/key", **options) for _ in minutes]
    moments = [AT + timedelta(minutes=minute) for minute in minutes]
    ticks = [Tick("key", at, found.updated_at, new.id, new, rule) for at, new in zip(moments, jobs, strict=True)]
    return store.run(enqueue_ticks(store.sql, ticks))


@pytest.fixture
def store(database: str) -> SyncStore:
    store = SyncStore(database)
    persist_entries(store, [entry(skip_if_unfinished=True)])
    return store


def test_a_tick_is_left_out_and_recorded_while_an_earlier_one_is_unfinished(store: SyncStore) -> None:
    first = tick(store, 1)
    assert (len(first.ids), first.unfinished) == (1, frozenset())
    waiting = tick(store, 2)
    assert waiting.unfinished == set(waiting.ids)
    (claim,) = store.claim(store.worker())
    running = tick(store, 3)
    assert running.unfinished == set(running.ids)
    assert (count(store.alias, "job"), count(store.alias, "recurringexecution")) == (1, 3)
    store.settle(Finished(claim))
    assert tick(store, 4).unfinished == frozenset()


def test_of_several_missed_ticks_one_is_enqueued(store: SyncStore) -> None:
    done = tick(store, 1, 2, 3)
    assert (len(done.ids), done.unfinished) == (3, frozenset(done.ids[1:]))
    assert counts(store.alias) == {"ready": 1}


@pytest.mark.parametrize("rule", [Uniqueness(1, OnDuplicate.REJECT), Uniqueness(1, OnDuplicate.RETURN_EXISTING)])
def test_a_tick_of_a_unique_task_raises_nothing(store: SyncStore, rule: Uniqueness) -> None:
    tick(store, 1, rule=rule)
    assert len(tick(store, 2, rule=rule).unfinished) == 1


def test_a_tick_replaces_a_waiting_job_and_is_left_out_while_it_runs(store: SyncStore) -> None:
    rule = Uniqueness(1, OnDuplicate.REPLACE)
    first = tick(store, 1, rule=rule)
    assert tick(store, 2, rule=rule).replaced == list(first.ids)
    store.claim(store.worker())
    done = tick(store, 3, rule=rule)
    assert done.unfinished == set(done.ids)
    assert counts(store.alias) == {"claimed": 1}


@pytest.mark.only_on("postgres", "mariadb")
def test_racing_schedulers_enqueue_one_job(store: SyncStore) -> None:
    def schedule() -> None:
        for minute in range(1, 6):
            tick(SyncStore(store.alias), minute)

    together(*[schedule] * 4)
    assert counts(store.alias) == {"ready": 1}
    assert count(store.alias, "recurringexecution") == 5


def test_the_option_is_stored_for_static_and_dynamic_entries(store: SyncStore) -> None:
    assert read_stored(store)[0].new.skip_if_unfinished
    schedule_recurring_task(greet, key="dynamic", every=timedelta(minutes=1), args=["Ada"], skip_if_unfinished=True)
    assert RecurringTask.objects.using(store.alias).get(pk="dynamic").skip_if_unfinished
    persist_entries(store, [entry()])
    assert not read_stored(store)[0].new.skip_if_unfinished


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"task": add, "skip_if_unfinished": 1}, "skip_if_unfinished must be True or False"),
        ({"task": greet, "skip_if_unfinished": "yes"}, "skip_if_unfinished must be True or False"),
    ],
)
def test_a_senseless_value_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Recurrence(key="key", every=timedelta(minutes=1), args=(1,), **options).entry()


def test_a_task_has_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.shop.tasks.add", add.using(unique=Unique(key="one")))
    monkeypatch.setattr("steady_queue.jobs.registry.registry._known", {})
    with pytest.raises(ConfigurationError, match="not possible for a task with unique"):
        Recurrence(task=add, key="key", every=timedelta(minutes=1), args=(1,), skip_if_unfinished=True).entry()


def test_plain_jobs_are_not_affected(store: SyncStore) -> None:
    store.enqueue(job(), job())
    tick(store, 1)
    assert counts(store.alias) == {"ready": 3}
