"""Why a task waits, in sentences."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from steady_queue import actions
from steady_queue.models import Process
from steady_queue.monitoring.jobs.rows import load_rows
from steady_queue.monitoring.jobs.waiting_reasons import find_reasons
from steady_queue.monitoring.statistics import read_now
from steady_queue.store.job import Lane
from steady_queue.store.operations.processes.registration import NewProcess, register
from tests.support.store.jobs import job, later, limited, retried
from tests.support.store.states import make_overdue, old_job

if TYPE_CHECKING:
    from steady_queue.monitoring.jobs.waiting_reasons import WaitingReason
    from steady_queue.store.job import NewJob
    from tests.support.store.stores import SyncStore

pytestmark = pytest.mark.usually_on("sqlite", "postgres")


def reasons_of(new: NewJob) -> list[WaitingReason]:
    (row,) = load_rows([new.id])
    return list(find_reasons(row, new.lane, read_now()))


def kinds(new: NewJob) -> list[str]:
    return [reason.kind for reason in reasons_of(new)]


def add_process(store: SyncStore, **actor: object) -> None:
    """Register a live process that runs this."""
    metadata = json.dumps({"actors": [actor]})
    process = NewProcess(uuid4(), "worker", "one", 1, "host", metadata=metadata)
    store.run(register(store.sql, process))


def test_a_ready_task_waits_because_of_its_queue_or_behind_others(store: SyncStore) -> None:
    first, second, urgent = job(queue_name="mail"), job(queue_name="mail"), job(queue_name="mail", priority=5)
    store.enqueue(first, second)
    assert kinds(first) == ["unserved", "next"]
    add_process(store, kind="worker", queues=["mai*"], **{"async": 3})
    assert kinds(first) == ["next"]
    store.enqueue(urgent)
    (behind,) = reasons_of(second)
    assert behind.text == "It waits behind 2 other tasks in the queue mail."
    assert behind.target == ("job", {"state": "ready", "queue": "mail"})
    actions.pause("mail")
    assert kinds(second) == ["paused", "behind"]
    assert reasons_of(second)[0].text.startswith("The queue mail is paused since 20")
    Process.objects.using(store.alias).update(last_heartbeat_at=datetime.now(UTC) - timedelta(days=1))
    assert kinds(second) == ["paused", "unserved", "behind"]
    store.enqueue(other := job(queue_name="mail", lane=Lane.PROCESS))
    assert kinds(other) == ["paused", "unknown_lane", "next"]


def test_a_blocked_task_waits_for_the_tasks_that_hold_the_slots(store: SyncStore) -> None:
    holders, waiting = [limited(to=2), limited(to=2)], [limited(to=2), limited(to=2)]
    store.enqueue(*holders, *waiting)
    store.claim(store.worker("the worker"))
    running, ready, behind = reasons_of(waiting[1])
    assert f"is held by the task {holders[0].id}, which runs in the worker since 20" in running.text
    assert ready.text == f"A slot of the key key is held by the task {holders[1].id}, which is ready."
    assert ready.target == ("job", {"id": str(holders[1].id)})
    assert behind.text == "It waits behind 1 other task for a slot of the key key."
    assert reasons_of(waiting[0])[-1].text == "It is the next task for a slot of the key key."
    free = limited("another")
    store.enqueue(free, promoting=False)
    assert kinds(free)[0] == "slot_free"
    store.promote({"another": 1})


def test_a_scheduled_task_waits_for_its_time_its_retry_or_a_dispatcher(store: SyncStore) -> None:
    scheduled, again, late = job(scheduled_at=later()), job(), old_job()
    (claim,) = store.claimed(again)
    store.settle(retried(claim))
    store.enqueue(scheduled)
    make_overdue(store, late)
    (planned,) = reasons_of(scheduled)
    assert planned.text.startswith("It is scheduled for 20")
    (retry,) = reasons_of(again)
    assert retry.text.startswith("Attempt 1 has failed; attempt 2 begins in ")
    assert kinds(late) == ["no_dispatcher"]
    add_process(store, kind="dispatcher")
    assert kinds(late) == ["late"]
    make_overdue(store, soon := job(), timedelta(seconds=2))
    assert kinds(soon) == ["due"]
