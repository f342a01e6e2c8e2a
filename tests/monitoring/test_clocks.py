"""A database whose clock differs from this machine's: what its rows say is compared with its own time."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.db import connections

from steady_queue.models import ClaimedExecution, Process
from steady_queue.monitoring.jobs.detail import find_detail
from steady_queue.monitoring.jobs.pages import find_page
from steady_queue.monitoring.jobs.search import JobSearch
from steady_queue.monitoring.process_list import MAX_PROCESSES
from steady_queue.monitoring.states import JobState
from steady_queue.monitoring.statistics import read_now
from steady_queue.store.operations.processes.registration import NewProcess, register
from tests.support.databases.tables import query
from tests.support.store.jobs import job, later

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.store.stores import SyncStore

#: By how much the database is ahead.
AHEAD = timedelta(hours=2)


@pytest.fixture
def early_database(store: SyncStore) -> Iterator[SyncStore]:
    """MariaDB lets a connection have its own time."""
    seconds = (datetime.now(UTC) + AHEAD).timestamp()
    with connections[store.alias].cursor() as cursor:
        cursor.execute("SET timestamp = %s", [seconds])
        yield store
        cursor.execute("SET timestamp = DEFAULT")


def add_worker(store: SyncStore, queues: str, heartbeat_at: datetime) -> None:
    metadata = json.dumps({"actors": [{"kind": "worker", "queues": [queues], "async": 3}]})
    id_ = uuid4()
    store.run(register(store.sql, NewProcess(id_, "worker", "one", 1, "host", metadata=metadata)))
    Process.objects.using(store.alias).filter(id=id_).update(last_heartbeat_at=heartbeat_at)


@pytest.mark.only_on("mariadb")
def test_heartbeats_are_compared_with_the_time_of_the_database(early_database: SyncStore) -> None:
    assert read_now() - datetime.now(UTC) > AHEAD / 2
    new = job(queue_name="mail")
    early_database.enqueue(new)
    for heartbeat_at, kinds in ((read_now() - AHEAD, ["unserved", "next"]), (read_now(), ["next"])):
        add_worker(early_database, "mail", heartbeat_at)
        detail = find_detail(new.id)
        assert detail is not None
        assert [reason.kind for reason in detail.waiting] == kinds


@pytest.mark.only_on("mariadb")
def test_a_task_is_late_by_the_time_of_the_database(early_database: SyncStore) -> None:
    due, planned = job(scheduled_at=later(hours=1)), job(scheduled_at=later(hours=3))
    early_database.enqueue(due, planned)
    assert [row.id for row in find_page(JobSearch(state=JobState.LATE)).rows] == [due.id]
    found = {row.id: row.is_late for row in find_page(JobSearch()).rows}
    assert found == {due.id: True, planned.id: False}
    detail = find_detail(planned.id)
    assert detail is not None
    assert re.search(r", in (1 h|59 min)", detail.waiting[0].text)
    assert "now" not in detail.raw


@pytest.mark.only_on("mariadb")
def test_an_attempt_has_run_since_a_time_of_the_database(early_database: SyncStore) -> None:
    new = job()
    early_database.claimed(new)
    ClaimedExecution.objects.using(early_database.alias).update(claimed_at=read_now() - timedelta(minutes=1))
    detail = find_detail(new.id)
    assert detail is not None
    (attempt,) = [entry.attempt for entry in detail.timeline if entry.attempt is not None]
    assert attempt.duration_seconds is not None
    assert 59 < attempt.duration_seconds < 120
    query(early_database.alias, "DELETE FROM steady_queue_claimedexecution")
    query(early_database.alias, "DELETE FROM steady_queue_job")


@pytest.mark.usually_on("sqlite")
def test_only_the_newest_processes_are_read_to_say_why_a_task_waits(store: SyncStore) -> None:
    new = job(queue_name="mail")
    store.enqueue(new)
    now = read_now()
    actors = {"mail": now - timedelta(days=1), **{f"other {number}": now for number in range(MAX_PROCESSES)}}
    Process.objects.using(store.alias).bulk_create(
        Process(
            id=uuid4(),
            kind="worker",
            name=queue,
            pid=1,
            hostname="host",
            started_at=started_at,
            last_heartbeat_at=now,
            metadata=json.dumps({"actors": [{"kind": "worker", "queues": [queue], "async": 3}]}),
        )
        for queue, started_at in actors.items()
    )
    detail = find_detail(new.id)
    assert detail is not None
    assert [reason.kind for reason in detail.waiting] == ["unserved", "next"]
