"""Replies of the database that never arrive: nothing is lost, and nothing runs twice."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.aio.process import connections
from steady_queue.events import (
    ClaimsReconciled,
    DatabaseLost,
    DatabaseRecovered,
    JobFenced,
    LeaseLost,
    ProcessRegisteredAgain,
)
from tests.support.runtime import EmittedEvents, until, values, worker
from tests.support.servers.proxy import COMMIT
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task
    from tests.support.servers.proxy import Proxy


pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("short_outage_pauses"),
    pytest.mark.only_on("postgres", "mariadb"),  # SQLite has no server that could be stopped
    pytest.mark.usually_on("postgres", "mariadb"),
]


@pytest.mark.parametrize("task", [recording.awaits, recording.alone_until_open])
async def test_a_settle_whose_reply_is_lost_is_repeated_and_the_task_is_not(
    database: str, proxied: str, proxy: Proxy, task: Task[..., Any]
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), alias=proxied, events=emitted):
        result = await task.aenqueue("once")
        await until(lambda: task_record.began == ["once"])
        lose_reply_to(proxy, UUID(result.id), in_transaction=database == "mariadb" or task is not recording.awaits)
        task_record.gate.set()
        assert await values(result) == ["once"]
        await until(lambda: bool(emitted.of(DatabaseRecovered)))
    assert proxy.has_lost.is_set()
    assert task_record.runs["once"] == 1
    assert not emitted.of(JobFenced)


async def test_jobs_whose_claim_reply_was_lost_are_released_and_run_once(
    database: str, proxied: str, proxy: Proxy
) -> None:
    emitted = EmittedEvents()
    results = [await task.aenqueue(number) for number in range(3) for task in (recording.rests, recording.works)]
    if database == "postgres":  # one statement, with the process id and, as arrays, what to claim
        me = uuid4()
        proxy.lose_answer(re.compile(re.escape(me.bytes) + rb"\x00{3}.\x00{3}\x01", re.DOTALL))
    else:
        proxy.lose_answer(COMMIT, after=re.compile(b"INSERT INTO steady_queue_claimedexecution"))
    async with running(worker(), alias=proxied, events=emitted, process_id=me if database == "postgres" else None):
        assert await values(*results) == [0, 0, 1, 1, 2, 2]
    assert proxy.has_lost.is_set()
    assert [event.count for event in emitted.of(ClaimsReconciled)] == [6]
    assert set(task_record.runs.values()) == {2}


async def test_connections_that_never_reply_again_are_replaced(
    database: str, proxied: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a load balancer that has lost its backend: nothing is closed, and no reply arrives."""
    monkeypatch.setattr(connections, "LONGEST_OPERATION_SECONDS", 1.0)
    emitted = EmittedEvents()
    async with running(worker(), alias=proxied, events=emitted):
        assert await values(await recording.rests.aenqueue("before")) == ["before"]
        proxy.mute()
        assert await values(await recording.rests.aenqueue("after")) == ["after"]
    assert any("no reply within" in event.error for event in emitted.of(DatabaseLost))


async def test_one_lost_heartbeat_has_no_effect(
    database: str, proxied: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.2))
    emitted, id_ = EmittedEvents(), uuid4()
    result = await recording.awaits.aenqueue("runs on")
    proxy.lose_answer(build_pattern(id_), after=re.compile(b"SET last_heartbeat_at"))
    async with running(worker(), alias=proxied, events=emitted, process_id=id_) as process:
        await until(lambda: task_record.began == ["runs on"])
        await until(lambda: any(event.service == "heartbeat" for event in emitted.of(DatabaseRecovered)))
        before = process.services.lease.expires_at
        await until(lambda: process.services.lease.expires_at > before)
        task_record.gate.set()
        assert await values(result) == ["runs on"]
    assert not emitted.of(LeaseLost)
    assert not emitted.of(ProcessRegisteredAgain)


def lose_reply_to(proxy: Proxy, id_: UUID, *, in_transaction: bool) -> None:
    """Lose the reply to the next statement with this id, or to the commit of its transaction."""
    if in_transaction:
        proxy.lose_answer(COMMIT, after=build_pattern(id_))
    else:
        proxy.lose_answer(build_pattern(id_))


def build_pattern(id_: UUID) -> re.Pattern[bytes]:
    """A pattern that matches a statement with this id, on every server."""
    return re.compile(b"|".join(map(re.escape, (id_.bytes, id_.hex.encode(), str(id_).encode()))))
