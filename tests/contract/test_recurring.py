"""The seed's "Recurring tasks": each example is due at its time, and is enqueued and run."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue.aio import running
from steady_queue.aio.scheduler import scheduler
from steady_queue.configuration import Options
from steady_queue.models import Job, RecurringExecution, RecurringTask
from steady_queue.recurring import schedule
from steady_queue.recurring.definitions import Recurrences
from tests.support.databases.tables import query
from tests.support.runtime import in_thread, until

if TYPE_CHECKING:
    from steady_queue.recurring.definitions import Recurrence

    Capture = pytest.CaptureFixture[str]
    Patch = pytest.MonkeyPatch

pytestmark = pytest.mark.anyio

EXAMPLES = "tests.contract.recurring_examples"
#: So that they need not be waited for, the examples are run with this schedule instead of their own.
EVERY_SECOND = "* * * * * *"
MORNING = datetime(2030, 1, 1, 9, tzinfo=UTC)
NOON = MORNING.replace(hour=12)


def collect(monkeypatch: Patch) -> Recurrences:
    """What recurs from now on, for this test alone."""
    kept = Recurrences()
    monkeypatch.setattr("steady_queue.recurring.definitions.recurrences", kept)
    return kept


def examples_of(monkeypatch: Patch, function: str) -> list[Recurrence]:
    """The entries that the decorators of a function have made."""
    kept = collect(monkeypatch)
    sys.modules.pop(EXAMPLES, None)
    import_module(EXAMPLES)
    return [each for each in kept._all if each.task.func.__name__ == function]


def due(entries: list[Recurrence]) -> dict[str, datetime | None]:
    """When each entry is due, seen from the morning of New Year's Day."""
    assert [problem for entry in entries for problem in entry.problems()] == []
    return {entry.key: schedule.parse(entry.entry().schedule, "UTC").next(MORNING) for entry in entries}


async def fired(alias: str, monkeypatch: Patch, entries: list[Recurrence]) -> None:
    """Run these entries, and no others, until the tasks of each have ended."""
    kept = collect(monkeypatch)
    for entry in entries:
        kept.add(replace(entry, schedule=EVERY_SECOND))
    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 0.2)
    ended = (
        "SELECT DISTINCT e.task_key FROM steady_queue_recurringexecution e"
        " JOIN steady_queue_job j ON j.id = e.job_id WHERE j.finished_at IS NOT NULL"
    )
    async with running(Options()), running(Options()):
        await until(lambda: in_thread(lambda: len(query(alias, ended)) == len(entries)))


async def test_recurring_at_noon(database: str, monkeypatch: Patch, capsys: Capture) -> None:
    """`@recurring(schedule="0 12 * * *", key="rot the brains at noon")`."""
    entries = examples_of(monkeypatch, "ballerina")
    assert due(entries) == {"rot the brains at noon": NOON}
    await fired(database, monkeypatch, entries)
    assert set(capsys.readouterr().out.splitlines()) == {"capuccina"}
    rows = await in_thread(lambda: list(RecurringTask.objects.values_list("pk", "static", "schedule")))
    assert rows == [("rot the brains at noon", True, EVERY_SECOND)]


async def test_recurring_with_arguments(database: str, monkeypatch: Patch, capsys: Capture) -> None:
    """`args=(10, 5), kwargs={'name': 'Sahur'}`."""
    entries = examples_of(monkeypatch, "countdown_greeting")
    assert due(entries) == {"rot the brains at noon": NOON}
    await fired(database, monkeypatch, entries)
    assert set(capsys.readouterr().out.splitlines()) == {*"56789", "Hello, Sahur!"}


async def test_recurring_twice_on_one_task(database: str, monkeypatch: Patch, capsys: Capture) -> None:
    """`greet_alice` at ten and `greet_bob` at noon."""
    entries = examples_of(monkeypatch, "greet")
    assert due(entries) == {"greet_alice": MORNING.replace(hour=10), "greet_bob": NOON}
    await fired(database, monkeypatch, entries)
    assert set(capsys.readouterr().out.splitlines()) == {"Hello, Alice!", "Hello, Bob!"}


async def test_recurring_in_another_queue_with_another_priority(database: str, monkeypatch: Patch) -> None:
    """`queue_name` and `priority`; without them those of `@task()`."""
    await fired(database, monkeypatch, examples_of(monkeypatch, "write"))

    def stored() -> set[Any]:
        jobs = {job.pk: (job.queue_name, job.priority) for job in Job.objects.all()}
        return {(tick.task_key, *jobs[tick.job_id]) for tick in RecurringExecution.objects.all()}

    assert await in_thread(stored) == {("other", "reports", 7), ("own", "mail", 3)}


async def test_recurring_one_key_is_for_one_entry(monkeypatch: Patch) -> None:
    """ "The `key` parameter must be a unique identifier": two of the examples have the same, and are refused."""
    examples_of(monkeypatch, "")
    from steady_queue.recurring.definitions import recurrences

    (problem,) = recurrences.problems()
    assert problem.startswith("recurring task 'rot the brains at noon': 2 entries have this key")


async def test_recurring_the_table_of_ticks(database: str, monkeypatch: Patch) -> None:
    """ "the `steady_queue_recurringexecution` table ... has a unique index on `task_key` and `run_at`"."""
    await fired(database, monkeypatch, examples_of(monkeypatch, "greet"))
    rows = await in_thread(query, database, "SELECT task_key, run_at FROM steady_queue_recurringexecution")
    assert len(rows) == len(set(rows)) == await in_thread(Job.objects.count)
