"""A queue in which every page has something to show, with names that are hostile to HTML, URLs and readers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid4

from steady_queue import actions
from steady_queue.models import Process, TaskStatistics
from steady_queue.store.operations.processes.registration import NewProcess, register
from tests.support.store.jobs import job, limited
from tests.support.store.states import make_all_states
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.monitoring.states import JobState
    from steady_queue.store.job import NewJob

#: Markup, characters that mean something in URLs, a control character and one that reverses the text behind it.
HOSTILE = "a/../b?<script>alert('\"&#')</script>\u202egnp.\x1b[1m"


class Sample(NamedTuple):
    """The ids of what was made."""

    states: dict[JobState, NewJob]
    supervisor: UUID
    worker: UUID
    running: UUID


def fill(alias: str) -> Sample:
    """Make tasks in each state, a supervisor with a worker, an hour of statistics, a paused queue and limits."""
    store = SyncStore(alias)
    states = make_all_states(store)
    supervisor, worker = uuid4(), uuid4()
    store.run(register(store.sql, NewProcess(supervisor, "supervisor", f"supervisor {HOSTILE}"[:100], 10, "here")))
    store.run(register(store.sql, NewProcess(worker, "worker", "the worker", 11, HOSTILE, supervisor_id=supervisor)))
    measured = {"lanes": {"async": [3, 100], "thread": [8, 8]}, "lag_seconds": 0.002, "memory_bytes": 123_456_789}
    Process.objects.using(alias).filter(id=worker).update(measurements=json.dumps(measured))
    store.enqueue(running := limited(key=HOSTILE, queue_name="running"))
    assert store.claim(worker, queues=["running"])
    store.enqueue(job(queue_name=HOSTILE), limited(key=HOSTILE))
    actions.pause("reports")
    write_statistics(alias, worker, "mail")
    return Sample(states, supervisor, worker, running.id)


def write_statistics(alias: str, process_id: UUID, queue: str) -> None:
    """Write what a process did in the last hour: 10 tasks in each of five minutes, one of which failed."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    TaskStatistics.objects.using(alias).bulk_create(
        TaskStatistics(
            seconds=60,
            starts_at=now - timedelta(minutes=minute),
            process_id=process_id,
            queue_name=queue,
            task_path="tests.shop.tasks.noop",
            started=10,
            finished=9,
            failed=1,
            retried=0,
            run_milliseconds=1_000,
            longest_run_milliseconds=500,
            waits=10,
            wait_milliseconds=20_000,
            longest_wait_milliseconds=4_000,
        )
        for minute in range(1, 6)
    )
