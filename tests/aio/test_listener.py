"""Notifications: sent after the commit, or with the insert if the process was idle; polling finds every job without."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

import steady_queue
from steady_queue import aenqueue_all
from steady_queue.aio import running
from steady_queue.db import notify as wake
from steady_queue.db.aliases import connection_parameters
from steady_queue.events import DatabaseRecovered, ListenerLost
from steady_queue.store.drivers import postgres
from steady_queue.store.names import NOTIFY_CHANNEL
from steady_queue.store.operations.notify import notify
from tests.support.databases.tables import query
from tests.support.runtime import EmittedEvents, in_thread, until, values, worker
from tests.support.tasks import recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("postgres")]


@asynccontextmanager
async def listening(alias: str) -> AsyncIterator[list[str]]:
    """The payloads that a listener receives."""
    payloads: list[str] = []
    link = await postgres.listen(connection_parameters(alias), NOTIFY_CHANNEL, payloads.append, lambda: None)
    try:
        yield payloads
    finally:
        await link.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The notifications that were sent as separate statements."""
    found: list[str] = []
    send = notify

    def noted(*given: Any) -> Any:
        found.append("sent")
        return send(*given)

    monkeypatch.setattr(wake, "notify", noted)
    monkeypatch.setattr(wake, "_last_sent", {})
    return found


@pytest.fixture
def never_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "reserve_notification", lambda *_: False)
    monkeypatch.setattr(wake, "MIN_INTERVAL_SECONDS", 0.0)


async def test_a_quiet_process_notifies_with_the_statement_that_enqueues(database: str, sent: list[str]) -> None:
    async with listening(database) as payloads:
        await recording.rests.aenqueue("native")
        await until(lambda: payloads == [""])
        wake._last_sent.clear()
        await in_thread(recording.rests.enqueue, "Django")
        await until(lambda: payloads == ["", ""])
    assert sent == []


async def test_a_busy_process_notifies_after_commit(database: str, sent: list[str], never_quiet: None) -> None:
    async with listening(database) as payloads:
        await recording.rests.aenqueue("native")
        await in_thread(recording.rests.enqueue, "Django")
        await until(lambda: payloads == ["", ""])
    assert sent == ["sent", "sent"]


async def test_one_notification_serves_all_jobs_that_are_enqueued_soon_after(
    database: str, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "MIN_INTERVAL_SECONDS", 60.0)
    monkeypatch.setattr(wake, "QUIET_SECONDS", 60.0)
    async with listening(database) as payloads:
        for number in range(5):
            await recording.rests.aenqueue(number)
        await in_thread(query, database, f"SELECT pg_notify('{NOTIFY_CHANNEL}', 'end')")
        await until(lambda: "end" in payloads)
    assert payloads == ["", "end"]


async def test_a_bulk_is_one_notification(database: str, sent: list[str]) -> None:
    async with listening(database) as payloads:
        await aenqueue_all([recording.rests.bind(number) for number in range(50)])
        await in_thread(query, database, f"SELECT pg_notify('{NOTIFY_CHANNEL}', 'end')")
        await until(lambda: "end" in payloads)
    assert payloads == ["", "end"]


async def test_inside_a_transaction_nothing_is_notified_before_its_commit(database: str, sent: list[str]) -> None:
    def enqueue(undo: bool) -> None:
        with transaction.atomic(using=database):
            recording.rests.enqueue("inside")
            assert sent == []
            transaction.set_rollback(undo, using=database)

    async with listening(database) as payloads:
        await in_thread(enqueue, True)
        assert sent == []
        await in_thread(enqueue, False)
        await until(lambda: payloads == [""])
    assert sent == ["sent"]


async def test_notifications_can_be_switched_off(
    database: str, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "notify", False)
    async with listening(database) as payloads:
        await recording.rests.aenqueue("quietly")
        await in_thread(query, database, f"SELECT pg_notify('{NOTIFY_CHANNEL}', 'end')")
        await until(lambda: "end" in payloads)
    assert payloads == ["end"]
    async with running(worker()) as process:
        assert process.services.listener is None
        assert await values(await recording.rests.aenqueue("found by polling")) == ["found by polling"]


async def test_a_listener_whose_connection_breaks_is_replaced(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        wakeup = process.services.listener
        assert wakeup is not None
        await until(lambda: wakeup.is_listening())
        is_it = f"starts_with(query, 'LISTEN') AND strpos(query, '{NOTIFY_CHANNEL}') > 0"
        await in_thread(query, database, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {is_it}")
        await until(lambda: bool(emitted.of(ListenerLost)))
        await until(lambda: wakeup.is_listening())
        assert "listener" in {event.service for event in emitted.of(DatabaseRecovered)}
        assert await values(await recording.rests.aenqueue("notified again")) == ["notified again"]
