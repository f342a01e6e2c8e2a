"""Django signals of the runtime: processes that start and stop, queues that are paused."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from steady_queue import actions, events
from steady_queue.aio import running
from steady_queue.aio.process.shutdown import Shutdown
from steady_queue.configuration import Dispatcher, Options, Worker
from steady_queue.events import QueuePaused, QueueResumed, RuntimeFault
from steady_queue.queues import Queue
from steady_queue.signals import (
    ProcessLifecycle,
    QueueLifecycle,
    process_restarted,
    process_started,
    process_stopped,
    queue_paused,
    queue_resumed,
)
from tests.support.runtime import EmittedEvents, values, worker
from tests.support.tasks import recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.dispatch import Signal

ALL = {
    "started": process_started,
    "stopped": process_stopped,
    "restarted": process_restarted,
    "paused": queue_paused,
    "resumed": queue_resumed,
}


@pytest.fixture
def sent() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """The calls of a receiver of all signals, in their order."""
    got: list[tuple[str, dict[str, Any]]] = []
    names = {id(signal): name for name, signal in ALL.items()}

    def receive(signal: Signal, **fields: Any) -> None:
        got.append((names[id(signal)], fields))

    for signal in ALL.values():
        signal.connect(receive)
    yield got
    for signal in ALL.values():
        signal.disconnect(receive)


@pytest.mark.anyio
async def test_a_signal_is_sent_when_a_process_starts_and_when_it_has_stopped(
    database: str, sent: list[tuple[str, dict[str, Any]]]
) -> None:
    options = Options(workers=[Worker(queues=["mail", "a*"], threads=2)], dispatchers=[Dispatcher(batch_size=9)])
    async with running(options) as process:
        assert [name for name, _ in sent] == ["started"] * 3
    kinds = ["worker", "dispatcher", "scheduler"]
    assert [(name, fields["process_kind"]) for name, fields in sent] == [
        (name, kind) for name in ("started", "stopped") for kind in kinds
    ]
    first = sent[0][1]
    assert first["sender"] is ProcessLifecycle
    assert first.keys() == {"sender", "process_kind", "process_name", "pid", "hostname", "metadata"}
    assert (first["process_name"], first["pid"], first["hostname"]) == (process.name, os.getpid(), socket.gethostname())
    assert first["metadata"]["queues"] == "mail,a*"
    assert sent[1][1]["metadata"]["batch_size"] == 9
    assert [fields["error"] for name, fields in sent if name == "stopped"] == [None] * 3


@pytest.mark.anyio
async def test_the_signal_of_a_process_that_fails_has_its_error_when_it_has_stopped(
    database: str, sent: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Shutdown, wait_for_children: object) -> None:
        raise LookupError("on purpose")

    monkeypatch.setattr(Shutdown, "run", broken)
    with pytest.RaisesGroup(LookupError, flatten_subgroups=True):
        async with running(worker()):
            pass
    errors = [fields["error"] for name, fields in sent if name == "stopped"]
    assert [str(error) for error in errors] == ["on purpose"] * 3
    await _sign_off_all(database)


async def _sign_off_all(alias: str) -> None:
    from tests.support.databases.tables import query
    from tests.support.runtime import in_thread

    await in_thread(query, alias, "DELETE FROM steady_queue_process")


@pytest.mark.anyio
async def test_receivers_that_raise_are_reported_and_async_ones_are_awaited(database: str) -> None:
    async def receive(**fields: Any) -> None:
        got.append(fields["process_kind"])

    def broken(**fields: Any) -> None:
        raise LookupError("on purpose")

    got: list[str] = []
    emitted = EmittedEvents()
    process_started.connect(broken)
    process_started.connect(receive)
    try:
        async with running(worker(), events=emitted):
            assert await values(await recording.rests.aenqueue("fine")) == ["fine"]
    finally:
        process_started.disconnect(broken)
        process_started.disconnect(receive)
    assert got == ["worker", "dispatcher", "scheduler"]
    assert [str(fault.exception) for fault in emitted.of(RuntimeFault)] == ["on purpose"] * 3


def facts(sent: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str, bool]]:
    assert all(fields["sender"] is QueueLifecycle for _, fields in sent)
    return [(name, fields["queue_name"], fields["changed"]) for name, fields in sent]


EXPECTED = [("paused", "mail", True), ("paused", "mail", False), ("resumed", "mail", True), ("resumed", "mail", False)]


def test_the_signal_of_a_paused_or_resumed_queue_says_whether_its_state_changed(
    database: str, sent: list[tuple[str, dict[str, Any]]]
) -> None:
    emitted: list[events.Event] = []
    events.subscribe(emitted.append, only=[QueuePaused, QueueResumed])
    actions.pause("mail")
    Queue("mail").pause()
    Queue("mail").resume()
    actions.resume("mail")
    assert facts(sent) == EXPECTED
    assert [vars(event) for event in emitted] == [
        {"queue_name": queue, "changed": changed} for _, queue, changed in EXPECTED
    ]


@pytest.mark.anyio
async def test_the_async_forms_send_it_too(database: str, sent: list[tuple[str, dict[str, Any]]]) -> None:
    await actions.apause("mail")
    await Queue("mail").apause()
    await Queue("mail").aresume()
    await actions.aresume("mail")
    assert facts(sent) == EXPECTED


def test_inside_a_transaction_it_is_sent_after_the_commit_and_not_after_a_rollback(
    database: str, sent: list[tuple[str, dict[str, Any]]]
) -> None:
    with transaction.atomic(using=database):
        actions.pause("mail")
        assert sent == []
    assert facts(sent) == [("paused", "mail", True)]
    with pytest.raises(LookupError), transaction.atomic(using=database):
        actions.resume("mail")
        raise LookupError
    assert len(sent) == 1
    assert Queue("mail").is_paused


def test_under_manual_transaction_management_nothing_is_sent(
    database: str, sent: list[tuple[str, dict[str, Any]]]
) -> None:
    transaction.set_autocommit(False, using=database)
    try:
        actions.pause("mail")
        transaction.commit(using=database)
    finally:
        transaction.set_autocommit(True, using=database)
    assert Queue("mail").is_paused
    assert sent == []


def test_a_receiver_that_raises_does_no_harm(database: str, sent: list[tuple[str, dict[str, Any]]]) -> None:
    def broken(**fields: Any) -> None:
        raise LookupError("on purpose")

    emitted: list[events.Event] = []
    events.subscribe(emitted.append, only=[RuntimeFault])
    queue_paused.connect(broken)
    try:
        assert actions.pause("mail")
    finally:
        queue_paused.disconnect(broken)
    assert facts(sent) == [("paused", "mail", True)]
    assert len(emitted) == 1
