"""What a process replies to requests: where its tasks are, and that it stops."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import steady_queue
from steady_queue import actions
from steady_queue.aio import running
from steady_queue.aio.maintenance import maintenance
from steady_queue.aio.process import requests
from steady_queue.aio.worker.control import cancellations, live_stacks
from steady_queue.db import notify
from steady_queue.events import ProcessStopRequested
from steady_queue.store.operations.processes.requests import find_open_requests
from tests.support.runtime import EmittedEvents, enqueue_each, until, values, wait_for_results, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.actions import ProcessReply

pytestmark = pytest.mark.anyio


async def reply_to(request: str) -> ProcessReply:
    found: list[ProcessReply] = []

    async def replied() -> bool:
        found.extend(reply for reply in [await actions.aread_reply(request)] if reply is not None)
        return bool(found)

    await until(replied, "the process has not replied")
    return found[0]


def functions(reply: ProcessReply) -> list[str]:
    return [line.rpartition(" in ")[2] for line in reply.stack if line.startswith("  File")]


@pytest.mark.usually_on("postgres", "sqlite")
async def test_the_stacks_of_running_tasks_show_where_they_are(database: str) -> None:
    async with running(worker(coroutines=5, threads=1)) as process:
        (waits,) = await enqueue_each(recording.awaits_event, ["waits"])
        (behind,) = await enqueue_each(recording.awaits_thread, ["behind"])
        (blocks,) = await enqueue_each(recording.blocks, ["blocks"])
        await until(lambda: len(task_record.began) == 3)
        reply = await reply_to(await actions.arequest_stack(waits, by="Ada"))
        assert reply.is_running
        assert reply.run_seconds is not None
        assert 0 <= reply.run_seconds < 60
        assert functions(reply) == ["awaits_event", "wait"]
        assert "await event.wait()" in reply.stack[1]
        reply = await reply_to(await actions.arequest_stack(blocks))
        assert functions(reply)[0] == "blocks"
        reply = await reply_to(await actions.arequest_stack(behind))
        assert "It waits for its ORM thread, which is here:" in reply.stack
        assert "block" in functions(reply)

        # A task that has ended when its process reads the request.
        looked, may_look = process.services.requests._look, asyncio.Event()

        async def look() -> None:
            await may_look.wait()
            await looked()

        process.services.requests._look = look  # type: ignore[method-assign]
        request = await actions.arequest_stack(waits)
        task_record.wake_event.set()
        await wait_for_results(waits)
        may_look.set()
        reply = await reply_to(request)
        assert (reply.is_running, reply.run_seconds, reply.stack) == (False, None, ())
        task_record.gate.set()
        await wait_for_results(behind, blocks)


@pytest.fixture
def without_notifications(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "notify", False)
    monkeypatch.setattr(notify, "_wake_locally", lambda *_: None)


@pytest.mark.usually_on("sqlite")
async def test_without_notifications_the_poll_for_cancellations_finds_the_request(
    database: str, without_notifications: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellations, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(maintenance, "INTERVAL_SECONDS", 300.0)
    async with running(worker(coroutines=5)):
        (waits,) = await enqueue_each(recording.awaits_event, ["waits"])
        await until(lambda: task_record.began == ["waits"])
        assert (await reply_to(await actions.arequest_stack(waits))).is_running
        task_record.wake_event.set()
        await wait_for_results(waits)


@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize("found_by", ["maintenance", "heartbeat"])
async def test_an_idle_process_is_stopped_and_reads_no_requests_before(
    database: str, without_notifications: None, monkeypatch: pytest.MonkeyPatch, found_by: str
) -> None:
    beats = 0.02 if found_by == "heartbeat" else 60.0
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=beats))
    monkeypatch.setattr(maintenance, "INTERVAL_SECONDS", 0.02 if found_by == "maintenance" else 300.0)
    looked: list[Any] = []

    def find(*args: Any) -> Any:
        looked.append(args)
        return find_open_requests(*args)

    monkeypatch.setattr(requests, "find_open_requests", find)
    emitted = EmittedEvents()
    async with running(worker(coroutines=5), events=emitted) as process:
        services = process.services
        renewed = services.lease.expires_at
        await until(lambda: services.maintenance._turns > 2 or services.lease.expires_at > renewed)
        assert not looked
        reply = await reply_to(await actions.astop_process(process.id, by="Ada"))
        assert reply.is_stopping
        await until(process.deadlines.requested.is_set)
    assert [(event.name, event.by) for event in emitted.of(ProcessStopRequested)] == [(process.name, "Ada")]


@pytest.mark.usually_on("sqlite")
async def test_a_task_may_finish_while_its_process_stops_on_request(database: str) -> None:
    async with running(worker(coroutines=5)) as process:
        (waits,) = await enqueue_each(recording.awaits_event, ["waits"])
        await until(lambda: task_record.began == ["waits"])
        await reply_to(await actions.astop_process(process.id))
        await until(process.deadlines.requested.is_set)
        # Stacks are useful above all for tasks that delay a stop.
        assert (await reply_to(await actions.arequest_stack(waits))).is_running
        task_record.wake_event.set()
        assert await values(waits) == ["waits"]


def test_a_stack_has_a_bounded_size_and_can_be_stored() -> None:
    assert live_stacks._bound("short \udc80\n") == "short \\udc80\n"
    for character in "aé€😀":
        assert len(live_stacks._bound(character * 100_000).encode()) <= live_stacks.MAX_BYTES
