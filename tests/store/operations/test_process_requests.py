"""Requests to processes: who finds them, their replies, and how long they are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from steady_queue.store.job import RequestKind
from steady_queue.store.operations.actions.cancellation import find_requests
from steady_queue.store.operations.maintenance.steps import Work, find_work
from steady_queue.store.operations.processes import requests as process_requests
from steady_queue.store.operations.processes.registration import heartbeat
from tests.support.databases.tables import count, query
from tests.support.store.jobs import job

if TYPE_CHECKING:
    from tests.support.store.stores import Store


def work(store: Store, *asked: UUID) -> Work:
    return store.run(find_work(store.sql, alive=timedelta(hours=1), keep=None, asked=asked))


def test_a_request_is_found_by_its_process_until_it_has_a_reply(store: Store) -> None:
    process, other, new = store.worker(), store.worker("other"), job()
    store.claimed(new, process_id=process)
    stop, stack = sorted((uuid4(), uuid4()))  # both may be of the same moment
    assert store.run(process_requests.request_stop(store.sql, stop, process, "Ada"))
    assert store.run(process_requests.request_stack(store.sql, stack, new.id, ""))
    found = store.run(process_requests.find_open_requests(store.sql, [process, other]))
    assert [request[:5] for request in found] == [
        (stop, process, RequestKind.STOP, None, "Ada"),
        (stack, process, RequestKind.STACK, new.id, ""),
    ]
    assert found[0].now >= store.now() - timedelta(minutes=1)
    assert store.run(heartbeat(store.sql, process)).has_requests is True
    assert store.run(heartbeat(store.sql, other)).has_requests is False
    assert store.run(find_requests(store.sql, process)) == ([], True)
    assert store.run(find_requests(store.sql, other)) == ([], False)
    assert store.run(find_requests(store.sql, other, process)).has_process_requests
    assert (work(store, other, process).own_requests, work(store, other).own_requests) == (True, False)
    assert not work(store).own_requests

    asked = store.run(process_requests.find_reply(store.sql, stop))
    assert asked is not None
    assert (asked.job_id, asked.reply, asked.replied_at) == (None, None, None)
    assert asked.requested_at <= asked.now
    store.run(process_requests.write_reply(store.sql, stop, "{}"))
    reply = store.run(process_requests.find_reply(store.sql, stop))
    assert reply is not None
    assert (reply.reply, reply.requested_at) == ("{}", asked.requested_at)
    found_stack = store.run(process_requests.find_reply(store.sql, stack))
    assert found_stack is not None
    assert found_stack.job_id == new.id
    assert [request.id for request in store.run(process_requests.find_open_requests(store.sql, [process]))] == [stack]
    store.run(process_requests.write_reply(store.sql, stack, "{}"))
    assert store.run(heartbeat(store.sql, process)).has_requests is False
    assert not store.run(find_requests(store.sql, process)).has_process_requests
    assert not work(store, process).own_requests


def test_nothing_is_asked_of_an_unknown_process_or_about_a_job_that_does_not_run(store: Store) -> None:
    new = job()
    store.enqueue(new)
    assert not store.run(process_requests.request_stop(store.sql, uuid4(), uuid4(), ""))
    assert not store.run(process_requests.request_stack(store.sql, uuid4(), new.id, ""))
    assert store.run(process_requests.find_reply(store.sql, uuid4())) is None
    assert count(store.alias, "processrequest") == 0


def test_requests_are_deleted_after_ten_minutes(store: Store) -> None:
    process, old, new = store.worker(), uuid4(), uuid4()
    store.run(process_requests.request_stop(store.sql, old, process, ""))
    assert not work(store).old_requests
    query(store.alias, "UPDATE steady_queue_processrequest SET requested_at = '2001-01-01 00:00:00'")
    store.run(process_requests.request_stop(store.sql, new, process, ""))
    assert work(store).old_requests
    store.run(process_requests.delete_old_requests(store.sql))
    assert not work(store).old_requests
    assert [request.id for request in store.run(process_requests.find_open_requests(store.sql, [process]))] == [new]
