"""What heartbeats store about polls: while a process works, is stuck, is disconnected, recovers and drains."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import steady_queue
from steady_queue.aio import outage as outage_module
from steady_queue.aio import running
from steady_queue.aio.worker.polling import LastPoll
from steady_queue.checks import health
from steady_queue.configuration import Dispatcher, Options
from tests.support.databases.tables import query, row
from tests.support.runtime import in_thread, until, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from steady_queue.checks.health import Health
    from tests.support.servers.proxy import Proxy

pytestmark = pytest.mark.anyio

QUICK = timedelta(seconds=1)


@pytest.fixture
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats and polls are much more frequent than the health check requires."""
    monkeypatch.setattr(steady_queue, "notify", False)
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.1))
    monkeypatch.setattr(outage_module, "MAX_PAUSE_SECONDS", 0.2)


async def judged(max_age: timedelta | None = None) -> Health:
    return await in_thread(lambda: health.check_health(max_age=max_age))


async def is_healthy(max_age: timedelta | None = None) -> bool:
    return (await judged(max_age)).healthy


async def stored_row(alias: str, process: Any) -> dict[str, Any]:
    found = await in_thread(row, alias, "Process", process.id, "id")
    assert found is not None
    return found


@asynccontextmanager
async def without_table(alias: str, name: str) -> AsyncIterator[None]:
    """Rename a table: statements that need it fail, all others succeed."""
    await in_thread(query, alias, f"ALTER TABLE {name} RENAME TO {name}_away")
    try:
        yield
    finally:
        await in_thread(query, alias, f"ALTER TABLE {name}_away RENAME TO {name}")


async def test_a_process_reports_its_polls_soon_after_its_start_and_not_only_with_the_second_heartbeat(
    database: str,
) -> None:
    assert steady_queue.process_heartbeat_interval == timedelta(seconds=60)
    async with running(worker()) as process:
        await until(is_healthy, timeout_seconds=15)
        (line,) = (await judged()).lines
        assert line.startswith(f"{process.name}: polled ")
    assert not await is_healthy()


async def test_polls_continue_to_be_reported(database: str, quick_beats: None) -> None:
    async with running(worker()) as process:
        await until(is_healthy)
        first = (await stored_row(database, process))["polled_at"]

        async def is_later() -> bool:
            return bool((await stored_row(database, process))["polled_at"] > first + timedelta(seconds=0.5))

        await until(is_later)


async def test_a_process_without_workers_reports_the_turns_of_its_dispatcher(database: str, quick_beats: None) -> None:
    options = Options(workers=[], dispatchers=[Dispatcher(polling_interval=timedelta(seconds=0.1))])
    async with running(options):
        await until(lambda: is_healthy(QUICK))
        async with without_table(database, "steady_queue_scheduledexecution"):

            async def is_stale() -> bool:
                return not await is_healthy(QUICK)

            await until(is_stale)
        await until(lambda: is_healthy(QUICK))


async def test_a_worker_whose_claims_fail_is_unhealthy_although_its_heartbeats_succeed(
    database: str, quick_beats: None
) -> None:
    async with running(worker()) as process:
        await until(lambda: is_healthy(QUICK))
        async with without_table(database, "steady_queue_readyexecution"):

            async def beats_without_polling() -> bool:
                found = await stored_row(database, process)
                return bool(found["last_heartbeat_at"] - found["polled_at"] > QUICK)

            await until(beats_without_polling)
            judgement = await judged(QUICK)
            assert not judgement.healthy
            assert "longer than 1 s" in judgement.lines[0]
        await until(lambda: is_healthy(QUICK))


async def test_a_worker_without_capacity_is_healthy_without_polls(database: str, quick_beats: None) -> None:
    async with running(worker(coroutines=1, threads=0)) as process:
        await recording.awaits.aenqueue("takes the only room")
        await until(lambda: task_record.running["async"] == 1)
        await until(lambda: process.services.workers[0].polled_ago == 0.0)
        since = (await stored_row(database, process))["last_heartbeat_at"]

        async def has_been_so_for_long() -> bool:
            return bool((await stored_row(database, process))["last_heartbeat_at"] > since + 2 * QUICK)

        await until(has_been_so_for_long)
        assert await is_healthy(QUICK)
        task_record.gate.set()


async def test_the_stalest_worker_counts_and_without_workers_the_stalest_of_the_others() -> None:
    def seconds_ago(workers: Sequence[float | None]) -> float | None:
        others = pollsters(98.0, 7.0, 99.0)
        return LastPoll(pollsters(*workers), others, is_stopping=lambda: False).seconds_ago()

    def pollsters(*ages: float | None) -> Any:
        return [SimpleNamespace(polled_ago=age) for age in ages]

    assert seconds_ago([0.0, 5.0, 1.0]) == 5.0
    assert seconds_ago([0.0, None]) is None
    assert seconds_ago([0.0]) == 0.0
    assert seconds_ago([]) == 99.0


async def test_a_process_whose_row_was_removed_reports_its_polls_again(database: str, quick_beats: None) -> None:
    async with running(worker()) as process:
        await until(is_healthy)
        await in_thread(query, database, "DELETE FROM steady_queue_process")
        await until(is_healthy)
        assert (await stored_row(database, process))["polled_at"] is not None


async def test_a_process_that_drains_is_healthy_during_long_tasks(
    database: str, quick_beats: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=20))
    async with running(worker()) as process:
        await recording.awaits.aenqueue("runs on")
        await until(lambda: task_record.running["async"] == 1)
        process.stop()
        since = (await stored_row(database, process))["last_heartbeat_at"]

        async def has_drained_for_long() -> bool:
            return bool((await stored_row(database, process))["last_heartbeat_at"] > since + 2 * QUICK)

        await until(has_drained_for_long)
        assert await is_healthy(QUICK)
        task_record.gate.set()


@pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could be cut off
async def test_a_process_that_is_cut_off_grows_stale_and_recovers(
    database: str, proxied: str, proxy: Proxy, quick_beats: None
) -> None:
    async with running(worker(), alias=proxied):
        await until(lambda: is_healthy(QUICK))
        proxy.go()

        async def is_stale() -> bool:
            judgement = await judged(QUICK)
            return not judgement.healthy and "longer than 1 s" in judgement.lines[0]

        await until(is_stale)
        proxy.come_back()
        await until(lambda: is_healthy(QUICK))
