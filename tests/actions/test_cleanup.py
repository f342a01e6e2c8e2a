"""Cleanup: tasks that ended long ago are deleted by the actions, by the command and by retention."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections

import steady_queue
from steady_queue.actions import cleanup
from steady_queue.actions.filters import parse_before
from steady_queue.errors import ConfigurationError
from steady_queue.models import FailedExecution, Job
from steady_queue.store.operations.actions import cleanup as store_cleanup
from steady_queue.store.operations.maintenance import steps as maintenance
from steady_queue.store.outcome import Finished
from tests.shop import tasks
from tests.support.databases.tables import count, counts
from tests.support.store.jobs import fail_jobs, job, later, limited

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob
    from tests.actions.conftest import Caller
    from tests.support.store.stores import SyncStore

DAY = timedelta(days=1)


def finished(store: SyncStore, age: timedelta, *jobs: NewJob) -> None:
    """Run the jobs; they finished that long ago."""
    store.settle(*map(Finished, store.claimed(*jobs)))
    ended = Job.objects.using(store.alias).filter(pk__in=[new.id for new in jobs])
    assert ended.update(finished_at=store.now() - age) == len(jobs)


def failed(store: SyncStore, age: timedelta, *jobs: NewJob) -> None:
    """Fail the jobs; they failed that long ago."""
    fail_jobs(store, *jobs)
    ended = FailedExecution.objects.using(store.alias).filter(pk__in=[new.id for new in jobs])
    assert ended.update(failed_at=store.now() - age) == len(jobs)


def everything(store: SyncStore) -> None:
    """Five finished and four failed tasks of each of three ages, and some that have not ended."""
    for age in (timedelta(hours=1), 3 * DAY, 30 * DAY):
        queues = ["mail", "default", "mail", "default", "default"]
        finished(store, age, *[job(queue_name=name) for name in queues])
        failed(store, age, *[job(queue_name=name, task_path=tasks.add.module_path) for name in queues[:4]])
    store.enqueue(job(), job(scheduled_at=later()), limited(), limited())
    store.claim(store.worker())


WAITING = 4


@pytest.mark.parametrize("batch", [1, 2, 5, 500])
def test_what_finished_before_is_deleted_and_nothing_else(store: SyncStore, caller: Caller, batch: int) -> None:
    everything(store)
    reported: list[int] = []
    which = cleanup.build_ended_filter(2 * DAY)
    assert cleanup.count_finished(which) == 10
    assert caller.do(cleanup, "clear_finished", which, batch=batch, progress=reported.append) == 10
    assert sum(reported) == 10
    assert count(store.alias, "job") == 5 + 12 + WAITING
    assert caller.do(cleanup, "clear_finished", cleanup.build_ended_filter(timedelta(0))) == 5
    assert caller.do(cleanup, "clear_finished", cleanup.build_ended_filter(timedelta.max)) == 0


@pytest.mark.parametrize("batch", [1, 3, 500])
def test_what_failed_before_is_deleted_and_nothing_else(store: SyncStore, caller: Caller, batch: int) -> None:
    everything(store)
    which = cleanup.build_ended_filter(datetime.now(UTC) - 2 * DAY)
    assert cleanup.count_failed(which) == 8
    assert caller.do(cleanup, "clear_failed", which, batch=batch) == 8
    assert counts(store.alias)["failed"] == 4
    assert count(store.alias, "job") == 15 + 4 + WAITING


def test_only_a_queue_or_a_task_is_cleared(store: SyncStore) -> None:
    everything(store)
    assert cleanup.count_finished(cleanup.build_ended_filter(DAY, queue="mail")) == 4
    assert cleanup.clear_finished(cleanup.build_ended_filter(DAY, queue="mail"), batch=3) == 4
    assert cleanup.clear_finished(cleanup.build_ended_filter(DAY, task=tasks.add), batch=3) == 0
    assert cleanup.clear_failed(cleanup.build_ended_filter(DAY, queue="mail", task=tasks.add), batch=3) == 4
    assert cleanup.count_failed(cleanup.build_ended_filter(DAY, task="tests.shop.tasks.add")) == 4
    assert count(store.alias, "job") == 11 + 8 + WAITING


# -- the manager ------------------------------------------------------------------------------------------------------


def test_the_manager_clears_in_batches(store: SyncStore, monkeypatch: pytest.MonkeyPatch) -> None:
    everything(store)
    slept: list[float] = []
    monkeypatch.setattr("steady_queue.db.transactions.time.sleep", slept.append)
    moment = store.now() - 9 * DAY
    assert Job.objects.clear_finished_in_batches(finished_before=moment, class_name="no.such.task") == 0
    assert Job.objects.clear_finished_in_batches(2, moment, sleep_between_batches=0.5) == 5
    assert slept == [0.5, 0.5]
    assert Job.objects.clear_finished_in_batches() == 5
    monkeypatch.setattr(steady_queue, "clear_finished_jobs_after", None)
    with pytest.raises(ConfigurationError, match="finished_before"):
        Job.objects.clear_finished_in_batches()


# -- retention --------------------------------------------------------------------------------------------------------


def test_retention_finds_and_clears_what_is_old(store: SyncStore) -> None:
    everything(store)
    look = maintenance.find_work(store.sql, alive=DAY, keep=DAY, keep_failed=DAY)
    work = store.run(look)
    assert (work.old, work.old_failed) == (True, True)
    assert store.run(maintenance.clear_finished(store.sql, DAY)) == (10, None)
    some = store.run(maintenance.clear_failed(store.sql, DAY, batch=5))
    assert some is not None
    assert some.jobs == 5
    assert some.next is not None
    assert store.run(maintenance.clear_failed(store.sql, DAY, some.next, batch=5)) == (3, None)
    work = store.run(look)
    assert (work.old, work.old_failed) == (False, False)


def test_without_retention_nothing_is_looked_for(store: SyncStore) -> None:
    everything(store)
    work = store.run(maintenance.find_work(store.sql, alive=DAY, keep=None))
    assert (work.old, work.old_failed) == (False, False)


# -- the command ------------------------------------------------------------------------------------------------------


def clear(*words: str, **options: Any) -> list[str]:
    out = StringIO()
    call_command("steady_queue_clear", *words, stdout=out, **options)
    return out.getvalue().splitlines()


def test_the_command_clears_and_prints_how_many(store: SyncStore) -> None:
    everything(store)
    words = ["--finished-before", "2d", "--failed-before", "10d"]
    assert clear(*words, "--dry-run") == ["10 finished tasks would be deleted", "4 failed tasks would be deleted"]
    assert count(store.alias, "job") == 27 + WAITING
    assert clear(*words, "--batch", "3") == ["10 finished tasks deleted", "4 failed tasks deleted"]
    assert clear(*words) == ["0 finished tasks deleted", "0 failed tasks deleted"]
    assert count(store.alias, "job") == 13 + WAITING


def test_zero_days_clear_all_that_ended_and_nothing_that_waits_or_runs(store: SyncStore) -> None:
    everything(store)
    assert clear("--finished-before=0d", "--failed-before=0d") == [
        "15 finished tasks deleted",
        "12 failed tasks deleted",
    ]
    assert counts(store.alias) == {"ready": 1, "scheduled": 1, "blocked": 1, "claimed": 1}


def test_the_command_clears_one_queue_or_one_task(store: SyncStore) -> None:
    everything(store)
    assert clear("--finished-before", "1d", "--queue", "mail") == ["4 finished tasks deleted"]
    assert clear("--failed-before", "1d", "--task", "tests.shop.tasks.add") == ["8 failed tasks deleted"]
    assert clear("--finished-before", "1d", "--queue", "x%' OR 1=1--") == ["0 finished tasks deleted"]


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_bar_grows(store: SyncStore, monkeypatch: pytest.MonkeyPatch) -> None:
    everything(store)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("steady_queue.management.progress_bar.REDRAW_SECONDS", 0)
    clear("--finished-before", "2d", "--batch", "5")
    assert f"finished [{'#' * 15}{'.' * 15}] 5 of 10" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_every_problem_is_reported_together() -> None:
    with pytest.raises(CommandError) as caught:
        clear("--finished-before", "soon", "--failed-before=-3d", "--batch", "0", "--queue", "x" * 256)
    reported = str(caught.value).splitlines()
    assert [line.split()[0] for line in reported] == ["--queue:", "--finished-before", "--failed-before", "--batch"]
    with pytest.raises(CommandError, match="nothing to delete"):
        clear("--dry-run")


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("7d", timedelta(days=7)),
        ("12h", timedelta(hours=12)),
        ("30m", timedelta(minutes=30)),
        ("45s", timedelta(seconds=45)),
        (" 2w ", timedelta(weeks=2)),
        ("0d", timedelta(0)),
        ("2026-01-31T10:00:00Z", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31 10:00+02:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ],
)
def test_a_moment_is_a_date_or_a_span(text: str, meaning: datetime | timedelta) -> None:
    assert parse_before(text) == meaning


def test_a_date_is_midnight_in_the_projects_time_zone(settings_zone: str) -> None:
    assert parse_before("2026-07-01") == datetime(2026, 6, 30, 22, tzinfo=UTC)


@pytest.fixture
def settings_zone() -> Any:
    from django.test import override_settings

    with override_settings(TIME_ZONE="Europe/Madrid"):
        yield "Europe/Madrid"


@pytest.mark.parametrize("text", ["", "d", "7", "-7d", "7 days", "1.5h", "2026-13-01", "9999999999999w", "٣d", "now"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 7d"):
        parse_before(text)


@pytest.mark.only_on("sqlite")
def test_a_batch_may_be_larger_than_the_number_of_values_in_a_statement(store: SyncStore) -> None:
    finished(store, 3 * DAY, *[job() for _ in range(1_500)])
    failed(store, 3 * DAY, *[job() for _ in range(1_500)])
    most = 1_200
    connections[store.alias].connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_cleanup, "JOBS_PER_STATEMENT", most - 100)
        reported = clear("--finished-before", "1d", "--failed-before", "1d", "--batch", "40000")
    assert reported == ["1,500 finished tasks deleted", "1,500 failed tasks deleted"]
