"""What is asked of processes, and how it is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.db import transaction

from steady_queue import actions
from steady_queue.db import notify
from steady_queue.errors import JobIsNotRunning, UnknownProcess, UnknownRequest
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.store.operations.processes.requests import find_open_requests, write_reply
from tests.support.databases.tables import count
from tests.support.store.jobs import job

if TYPE_CHECKING:
    from uuid import UUID

    from tests.actions.conftest import Caller
    from tests.support.store.stores import SyncStore


def reply_to(store: SyncStore, process: UUID, **values: object) -> None:
    (request,) = store.run(find_open_requests(store.sql, [process]))
    store.run(write_reply(store.sql, request.id, json.dumps(values)))


def test_a_process_is_asked_to_stop_and_for_a_stack_and_its_replies_are_read(store: SyncStore, caller: Caller) -> None:
    process, new = store.worker(), job()
    store.claimed(new, process_id=process)
    request = caller("stop_process", str(process), by="Ada")
    assert caller("read_reply", request) is None
    (found,) = store.run(find_open_requests(store.sql, [process]))
    assert (str(found.id), found.requested_by) == (request, "Ada")
    reply_to(store, process, is_stopping=True)
    reply = caller("read_reply", request)
    assert (reply.is_stopping, reply.is_running, reply.stack) == (True, False, ())

    request = caller("request_stack", str(new.id))
    reply_to(store, process, is_running=True, run_seconds=2.5, stack=["one", "two"])
    reply = caller("read_reply", request)
    assert (reply.is_running, reply.run_seconds, reply.stack) == (True, 2.5, ("one", "two"))
    assert reply.replied_at is not None


def test_a_request_that_is_not_possible_is_refused(store: SyncStore, caller: Caller) -> None:
    waits = job()
    store.enqueue(waits)
    for unknown in (uuid4(), "nonsense"):
        with pytest.raises(UnknownProcess, match="no process has the id"):
            caller("stop_process", unknown)
        with pytest.raises(UnknownRequest, match="no request has the id"):
            caller("read_reply", unknown)
        with pytest.raises(TaskResultDoesNotExist):
            caller("request_stack", str(unknown))
    with pytest.raises(JobIsNotRunning, match="is not running: it is ready"):
        caller("request_stack", str(waits.id))
    with pytest.raises(ValueError, match="by must be a string, not int"):
        caller("stop_process", store.worker(), by=5)
    assert count(store.alias, "processrequest") == 0


def test_a_request_is_announced_after_the_commit(store: SyncStore) -> None:
    process = store.worker()
    woken: list[str] = []
    stop = notify.listen_locally(store.alias, lambda: woken.append("request"), notify.REQUESTS)
    try:
        with transaction.atomic(using=store.alias):
            actions.stop_process(process)
            assert not woken
            transaction.set_rollback(True, using=store.alias)
        assert count(store.alias, "processrequest") == 0
        with transaction.atomic(using=store.alias):
            actions.stop_process(process)
        assert woken == ["request"]
    finally:
        stop()
