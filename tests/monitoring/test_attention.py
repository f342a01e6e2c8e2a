"""What needs attention."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue import actions
from steady_queue.models import RecurringTask
from steady_queue.monitoring.overview import read_overview
from steady_queue.monitoring.recurring.late_schedules import find_late_schedules
from steady_queue.store.operations.monitoring.open_transactions import find_oldest_transaction
from tests.monitoring.test_lists import add_process
from tests.support.databases.open_transactions import OpenTransaction
from tests.support.store.jobs import fail_jobs, job
from tests.support.store.recurring import entry, persist_entries
from tests.support.store.states import make_overdue, old_job
from tests.support.wait import in_thread, until

if TYPE_CHECKING:
    from steady_queue.monitoring.attention import Attention
    from tests.support.store.stores import SyncStore

HOUR = timedelta(hours=1)


def find(kind: str, since: datetime | None = None) -> list[Attention]:
    return [finding for finding in read_overview(since).attention if finding.kind == kind]


@pytest.mark.usually_on("postgres")
def test_everything_that_needs_attention_is_found_in_few_queries(database: str, store: SyncStore) -> None:
    now = datetime.now(UTC)
    fail_jobs(store, job(queue_name="mail"))
    make_overdue(store, old_job())
    actions.pause("paused")
    add_process(database, "dead", last_heartbeat_at=now - HOUR)
    add_process(database, "silent", polled_at=now - HOUR)
    store.enqueue(old_job(HOUR, queue_name="mail"), old_job(HOUR, queue_name="nowhere"), job(queue_name="paused"))
    persist_entries(store, [entry("hourly", schedule="0 * * * *")])
    RecurringTask.objects.using(database).update(updated_at=now - 3 * HOUR)
    with CaptureQueriesContext(connections[database]) as queries:
        overview = read_overview(now - HOUR)
    assert len(queries) <= 10
    found = {finding.kind: finding for finding in overview.attention}
    assert list(found) == [
        "failures",
        "dead_process",
        "stuck_process",
        "unserved_queue",
        "late_tasks",
        "backlog",
        "paused_queue",
        "late_schedule",
    ]
    assert found["failures"].text == "1 task has failed since those marked as seen."
    assert dict(found["failures"].target.query) == {"state": "failed", "since": (now - HOUR).isoformat()}
    assert found["dead_process"].text.startswith("Process dead has sent no heartbeat for 1 h and is considered dead")
    assert found["stuck_process"].text == "Process silent has not polled for 1 h."
    assert "async tasks of queue nowhere: 1 task waits, the oldest for 1 h" in found["unserved_queue"].text
    assert found["backlog"].text.startswith("Tasks of queue mail wait long: 1 task waits, the oldest for 1 h")
    assert found["backlog"].target == ("queue", {"name": "mail"})
    assert found["paused_queue"].text.startswith("Queue paused is paused: 1 task waits")
    assert found["late_schedule"].target == ("recurringtask", {"key": "hourly"})
    assert [finding.level for finding in overview.attention] == ["error"] * 5 + ["warning"] * 3


@pytest.mark.usually_on("sqlite")
def test_failures_that_are_marked_as_seen_need_no_attention(store: SyncStore) -> None:
    fail_jobs(store, job())
    assert [finding.text for finding in find("failures")] == ["1 task has failed in the last day."]
    assert find("failures", datetime.now(UTC) + HOUR) == []
    assert len(find("failures", datetime.now(UTC) - HOUR)) == 1


@pytest.mark.usually_on("sqlite")
def test_ready_tasks_without_any_process_need_attention(store: SyncStore) -> None:
    assert find("no_process") == []
    store.enqueue(job())
    assert len(find("no_process")) == 1


@pytest.mark.usually_on("sqlite")
def test_many_findings_of_a_kind_are_summed_up(database: str) -> None:
    for number in range(8):
        actions.pause(f"queue {number}")
    paused = find("paused_queue")
    assert len(paused) == 6
    assert paused[-1].text == "3 more queues are paused."


@pytest.mark.usually_on("sqlite")
def test_the_finding_for_further_processes_has_the_level_of_the_others(database: str) -> None:
    for number in range(8):
        add_process(database, f"process {number}", last_heartbeat_at=datetime.now(UTC) - HOUR)
    dead = find("dead_process")
    assert dead[-1].text == "3 more processes are considered dead."
    assert {finding.level for finding in dead} == {"error"}


def test_a_schedule_is_late_when_a_tick_was_not_enqueued(database: str, store: SyncStore) -> None:
    persist_entries(store, [entry("hourly", schedule="0 * * * *"), entry("broken", schedule="0 0 1 1 *")])
    now = datetime.now(UTC)
    entries = RecurringTask.objects.using(database)
    entries.filter(key="broken").update(schedule="no schedule", updated_at=now - HOUR)
    assert find_late_schedules(now) == []
    entries.update(updated_at=now - 5 * HOUR)
    (late,) = find_late_schedules(now)
    assert late.key == "hourly"
    assert late.late_seconds > 3600
    entries.update(enabled=False)
    assert find_late_schedules(now) == []


@pytest.mark.only_on("postgres", "mariadb")
def test_an_open_transaction_that_has_written_is_found(database: str, store: SyncStore) -> None:
    other = OpenTransaction(database)

    def is_found() -> bool:
        time.sleep(0.12)  # between two looks: InnoDB reads its transactions again if it did not for 0.1 s
        return store.run(find_oldest_transaction(store.sql, 0.0)) is not None

    try:
        assert store.run(find_oldest_transaction(store.sql, 3600.0)) is None
        other.begin()
        other.do(lambda its: its.enqueue(job()))
        asyncio.run(until(lambda: in_thread(is_found)))
        found = store.run(find_oldest_transaction(store.sql, 0.0))
        assert found is not None
        assert 0 <= found.seconds < 60
        assert found.connection_id > 0
        assert store.run(find_oldest_transaction(store.sql, 3600.0)) is None
    finally:
        other.close()


@pytest.mark.only_on("sqlite")
def test_sqlite_shows_no_transactions(store: SyncStore) -> None:
    assert store.run(find_oldest_transaction(store.sql, 0.0)) is None
