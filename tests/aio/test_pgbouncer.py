"""The runtime through PgBouncer in transaction mode, where LISTEN does not work: polling finds every task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import steady_queue
from steady_queue.aio import listener, running
from steady_queue.checks.project import check_project
from steady_queue.events import DatabaseLost
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.runtime import EmittedEvents, enqueue_each, until, values, worker
from tests.support.servers import PgBouncer
from tests.support.servers.postgres import Postgres
from tests.support.tasks import recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import MariaDB

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("postgres")]


@pytest.fixture
def pooled(database: str, servers: dict[str, Postgres | MariaDB]) -> Iterator[str]:
    """An alias of the database through the pooler, configured as Django documents it for poolers."""
    server = servers[database]
    assert isinstance(server, Postgres)
    with PgBouncer(server) as bouncer:
        settings = twin_settings(database, PORT=str(bouncer.port), DISABLE_SERVER_SIDE_CURSORS=True)
        with extra_database("postgres_bounced", settings) as alias, pointed_at(alias):
            yield alias


def warned_of() -> list[str | None]:
    return [message.id for message in check_project()]


async def test_tasks_run_through_a_pooler_and_nothing_is_missed_where_notifications_are_off(
    pooled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "notify", False)
    emitted = EmittedEvents()
    assert warned_of() == []
    async with running(worker(), events=emitted):
        assert await values(*await enqueue_each(recording.rests, range(20))) == list(range(20))
        assert await values(*await enqueue_each(recording.works, range(20))) == list(range(20))
    assert emitted.of(DatabaseLost) == []


async def test_tasks_run_through_a_pooler_although_the_listener_receives_nothing(
    pooled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PROBE_TIMEOUT_SECONDS", 0.2)
    emitted = EmittedEvents()
    assert warned_of() == ["steady_queue.W006"]
    async with running(worker(), events=emitted) as process:
        await until(lambda: bool(emitted.of(DatabaseLost)))
        assert not process.services.is_listening()
        assert await values(*await enqueue_each(recording.rests, range(20))) == list(range(20))
    assert {event.service for event in emitted.of(DatabaseLost)} == {"listener"}
