"""Queues, processes and limits: what their lists show."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from steady_queue import actions
from steady_queue.models import Process
from steady_queue.monitoring import queue_list
from steady_queue.monitoring.counts import CappedCount
from steady_queue.monitoring.json_values import queues_as_json
from steady_queue.monitoring.limit_list import read_limit, read_limits
from steady_queue.monitoring.process_list import LaneUse, each_process, read_processes
from steady_queue.monitoring.queue_list import read_queue, read_queues
from steady_queue.monitoring.usage import Usage, read_usage
from steady_queue.store.job import Lane
from steady_queue.store.operations.monitoring import queue_heads
from steady_queue.store.operations.monitoring.queue_heads import find_queue_heads
from tests.support.store.jobs import job, limited
from tests.support.store.states import old_job

if TYPE_CHECKING:
    from tests.support.store.stores import SyncStore

MEASURED = {
    "lanes": {"async": [30, 100], "thread": [5, 40]},
    "lag_seconds": 0.02,
    "memory_bytes": 90_000_000,
    "stuck_threads": 0,
}


def add_process(alias: str, name: str, **options: Any) -> UUID:
    """Add the row of a process that serves the queues "mail" and those that begin with "report"."""
    now = datetime.now(UTC)
    actor = {"kind": "worker", "queues": ["mail", "report*"], "async": 100, "thread": 40}
    plain = {
        "id": uuid4(),
        "kind": "worker",
        "pid": 1,
        "hostname": "host",
        "metadata": json.dumps({"actors": [actor], "version": "1.2.3", "code_version": "abc"}),
        "started_at": now - timedelta(hours=1),
        "last_heartbeat_at": now,
        "polled_at": now,
        "measurements": json.dumps(MEASURED),
    }
    return UUID(str(Process.objects.using(alias).create(name=name, **{**plain, **options}).id))


def test_the_first_ready_task_of_each_queue_lane_and_priority_is_found_in_one_query(store: SyncStore) -> None:
    first = [
        job(queue_name="a", priority=5),
        job(queue_name="a", priority=0),
        job(queue_name="a", priority=-5),
        job(queue_name="a", lane=Lane.THREAD),
        job(queue_name="b", lane=Lane.THREAD, priority=1),
        job(queue_name="B"),
    ]
    store.enqueue(*first, *(one._replace(id=job().id) for one in first))
    with CaptureQueriesContext(connections[store.alias]) as queries:
        heads = store.run(find_queue_heads(store.sql))
    assert len(queries) == 1
    assert [head.job_id for head in heads] == [first[-1].id, *(one.id for one in first[:-1])]
    assert [(head.queue_name, head.lane, head.priority) for head in heads][1] == ("a", Lane.ASYNC, 5)
    assert heads[0].due_at == first[-1].enqueued_at


def test_a_queue_shows_its_size_latency_and_who_serves_it(database: str, store: SyncStore) -> None:
    add_process(database, "alive")
    add_process(database, "dead", last_heartbeat_at=datetime.now(UTC) - timedelta(hours=1))
    store.enqueue(
        old_job(timedelta(minutes=1), queue_name="mail", priority=9), old_job(timedelta(hours=1), queue_name="mail")
    )
    store.enqueue(job(queue_name="unknown", lane=Lane.THREAD))
    actions.pause("paused")
    with CaptureQueriesContext(connections[database]) as queries:
        rows = {row.name: row for row in read_queues()}
    assert len(queries) <= 8
    assert {"mail", "paused", "unknown", "low_importance"} <= rows.keys()
    mail, unknown = rows["mail"], rows["unknown"]
    assert mail.size == CappedCount(2)
    assert mail.latency_seconds == pytest.approx(3600, abs=60)
    assert (mail.served_by, mail.unserved_lanes, mail.utilisation) == (["alive"], [], 0.25)
    assert mail.sparkline == [0] * 60
    assert (unknown.served_by, unknown.unserved_lanes, unknown.utilisation) == ([], ["thread"], None)
    assert rows["reports"].served_by == ["alive"]
    assert (rows["paused"].is_paused, rows["paused"].size, rows["paused"].latency_seconds) == (True, (0, False), None)
    found = json.loads(json.dumps(queues_as_json(datetime.now(UTC), list(rows.values()))))
    assert (found["size"], found["queues"]["mail"]["size"]) == (3, 2)
    assert found["latency_seconds"] == found["queues"]["mail"]["latency_seconds"]


def test_running_tasks_are_counted_by_queue_and_process(database: str, store: SyncStore) -> None:
    process_id = add_process(database, "busy")
    store.claimed(job(queue_name="mail"), job(queue_name="reports"), process_id=process_id)
    (busy,) = read_processes()
    rows = {row.name: row.running for row in read_queues()}
    assert busy.running == 2
    assert (rows["mail"], rows["reports"], rows["default"]) == (1, 1, 0)
    assert not any(row.is_running_estimated for row in read_queues())


def test_of_many_running_tasks_some_are_looked_up_to_estimate_those_of_each_queue(
    database: str, store: SyncStore
) -> None:
    process_id = add_process(database, "busy")
    store.claimed(*(job(queue_name="mail") for _ in range(9)), process_id=process_id)
    assert read_usage(looked_up=4) == Usage(Counter({process_id: 9}), Counter({"mail": 9}), is_estimated=True)
    assert read_usage(looked_up=9) == Usage(Counter({process_id: 9}), Counter({"mail": 9}))
    assert read_usage(limit=5).by_process == {process_id: 5}
    store.claimed(*(job(queue_name=f"queue {number % 2}") for number in range(64)), process_id=process_id)
    found = read_usage(looked_up=20).by_queue
    assert [found["queue 0"], found["queue 1"]] == pytest.approx([32, 32], abs=10)


def test_one_queue_is_read_however_many_there_are(store: SyncStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.enqueue(job(queue_name="a"), job(queue_name="b"), old_job(timedelta(hours=1), queue_name="z"))
    actions.pause("paused")
    monkeypatch.setattr(queue_list, "MAX_QUEUES", 1)
    monkeypatch.setattr(queue_heads, "MAX_HEADS", 1)
    monkeypatch.setattr(queue_list, "MAX_HEADS", 1)
    assert [row.name for row in read_queues()] == ["a"]
    last, paused = read_queue("z"), read_queue("paused")
    assert last is not None
    assert paused is not None
    assert (last.name, last.size, last.is_paused) == ("z", CappedCount(1), False)
    assert last.latency_seconds == pytest.approx(3600, abs=60)
    assert (paused.size, paused.is_paused, paused.latency_seconds) == (CappedCount(0), True, None)
    assert read_queue("low_importance") is not None
    assert read_queue("no such queue") is None


@pytest.mark.usually_on("sqlite")
def test_processes_are_a_tree(database: str) -> None:
    supervisor = add_process(database, "supervisor", kind="supervisor", polled_at=None, measurements=None)
    add_process(database, "child", supervisor_id=supervisor)
    add_process(database, "embedded")
    add_process(database, "left alone", supervisor_id=uuid4(), measurements="[no JSON", metadata="nothing")
    rows = read_processes()
    assert [row.name for row in rows] == ["embedded", "left alone", "supervisor"]
    assert [row.name for row in each_process(rows)] == ["embedded", "left alone", "supervisor", "child"]
    (child,) = rows[-1].children
    assert (child.version, child.code_version, child.queues) == ("1.2.3", "abc", ["mail", "report*"])
    assert child.lanes == [LaneUse("async", 30, 100), LaneUse("thread", 5, 40)]
    assert (child.is_alive, child.is_polling, child.is_stuck) == (True, True, False)
    assert (rows[-1].is_polling, rows[-1].is_stuck) == (None, False)
    assert (rows[1].lanes, rows[1].actors, rows[1].version) == ([], [], None)


@pytest.mark.parametrize(
    ("options", "is_alive", "is_stuck"),
    [
        ({"last_heartbeat_at": timedelta(hours=1)}, False, False),
        ({"polled_at": timedelta(hours=1)}, True, True),
        ({"polled_at": None}, True, True),
        ({"polled_at": None, "started_at": timedelta()}, True, False),
        ({"measurements": json.dumps({**MEASURED, "lag_seconds": 3.0})}, True, True),
        ({"measurements": json.dumps({**MEASURED, "stuck_threads": 1})}, True, True),
    ],
)
@pytest.mark.usually_on("sqlite")
def test_a_process_that_does_no_work_is_dead_or_blocked(
    database: str, options: dict[str, Any], is_alive: bool, is_stuck: bool
) -> None:
    now = datetime.now(UTC)
    values = {name: now - value if isinstance(value, timedelta) else value for name, value in options.items()}
    add_process(database, "worker", **values)
    (row,) = read_processes()
    assert (row.is_alive, row.is_stuck) == (is_alive, is_stuck)


def test_limits_show_holders_and_waiting_tasks(database: str, store: SyncStore) -> None:
    first = limited("a", to=2)
    store.enqueue(first, limited("a", to=2), limited("a", to=2), limited("b"))
    with CaptureQueriesContext(connections[database]) as queries:
        rows = read_limits()
    assert len(queries) == 4
    assert [(row.key, row.limit, row.holders.number, row.waiting.number) for row in rows] == [
        ("a", 2, 2, 1),
        ("b", 1, 1, 0),
    ]
    assert rows[0].holder_ids[0] == first.id
    assert [row.key for row in read_limits(after="a", size=1)] == ["b"]
    assert read_limit("a") == rows[0]
    assert read_limit("c") is None
