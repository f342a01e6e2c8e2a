"""SQLite while another connection writes for long: the process waits, and no task fails or runs again because of it."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connections

import steady_queue
from steady_queue.aio import running
from steady_queue.events import DatabaseLost, DatabaseRecovered, JobFenced, LeaseLost
from tests.support.databases.aliases import extra_database, twin_settings
from tests.support.databases.tables import count
from tests.support.runtime import EmittedEvents, in_thread, until, values, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


@pytest.fixture
def short_busy_timeout(database: str) -> Iterator[str]:
    """The same file for the process under test, with a short busy timeout."""
    settings = twin_settings(database, options={"timeout": 0.1})
    with extra_database("sqlite_short_busy_timeout", settings) as alias:
        yield alias


@contextmanager
def written_by_another(alias: str) -> Iterator[None]:
    """Another connection is inside a transaction that writes, while the block runs."""
    other = sqlite3.connect(str(connections.databases[alias]["NAME"]), isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
    finally:
        other.close()


def lost_by(emitted: EmittedEvents, service: str) -> bool:
    return any(event.service == service for event in emitted.of(DatabaseLost))


async def test_a_settle_that_fails_after_a_successful_task_is_retried_and_the_task_is_not(
    database: str, short_busy_timeout: str
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), alias=short_busy_timeout, events=emitted):
        results = [await recording.awaits.aenqueue("async"), await recording.blocks.aenqueue("sync")]
        await until(lambda: len(task_record.began) == 2)
        with written_by_another(database):
            task_record.gate.set()
            await until(lambda: lost_by(emitted, "settler"))
        assert await values(*results) == ["async", "sync"]
    assert set(task_record.runs.values()) == {1}
    assert not emitted.of(JobFenced)


async def test_a_claim_that_fails_is_tried_again(database: str, short_busy_timeout: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(), alias=short_busy_timeout, events=emitted) as process:
        assert await values(await recording.rests.aenqueue("before")) == ["before"]
        with written_by_another(database):
            process.services.wake_ups.wake()
            await until(lambda: lost_by(emitted, "worker 1"))
        assert await values(await recording.rests.aenqueue("after")) == ["after"]
    assert set(task_record.runs.values()) == {1}


async def test_one_failed_heartbeat_has_no_effect(
    database: str, short_busy_timeout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.1))
    emitted = EmittedEvents()
    async with running(worker(), alias=short_busy_timeout, events=emitted) as process:
        with written_by_another(database):
            await until(lambda: lost_by(emitted, "heartbeat"))
        await until(lambda: any(event.service == "heartbeat" for event in emitted.of(DatabaseRecovered)))
        before = process.services.lease.expires_at
        await until(lambda: process.services.lease.expires_at > before)
        assert await values(await recording.rests.aenqueue("next")) == ["next"]
        assert await in_thread(count, database, "process") == 1
    assert not emitted.of(LeaseLost)
