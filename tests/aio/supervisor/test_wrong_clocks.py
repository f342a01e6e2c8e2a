"""Machines with wrong clocks: only the time of the database counts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.aio.maintenance import maintenance
from steady_queue.events import ProcessPruned
from steady_queue.store.operations.processes.registration import NewProcess, register
from tests.aio.supervisor.tasks import IMPORT_TASKS, awaits_alone, rests
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import command, stop_command, wait_for_output
from tests.support.processes.process_rows import rows
from tests.support.runtime import EmittedEvents, in_thread, until, values, wait_for_results, worker
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from datetime import datetime

    from tests.aio.supervisor.task_log import TaskLog

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usually_on("postgres"),
    pytest.mark.only_on("postgres", "mariadb"),  # SQLite's time is that of its process
]

ALIVE = 2.0
SETUP = f"{IMPORT_TASKS}\nfrom steady_queue.aio.maintenance import maintenance\nmaintenance.INTERVAL_SECONDS = 0.2"


@pytest.fixture(autouse=True)
def _watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has the short intervals of the others."""
    monkeypatch.setattr(steady_queue, "process_alive_threshold", timedelta(seconds=ALIVE))
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=ALIVE / 10))
    monkeypatch.setattr(maintenance, "INTERVAL_SECONDS", 0.2)


def wrong_by(seconds: int) -> dict[str, str]:
    """The environment of a process whose clock is wrong and runs at the right speed."""
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{seconds:+}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def leave_stale_process(alias: str) -> None:
    """Store a process of another machine whose last heartbeat is older than process_alive_threshold."""
    store = SyncStore(alias)
    store.run(register(store.sql, NewProcess(uuid4(), "process", "stale", 1, "other-host", None, "{}")))
    past = store.now() - timedelta(seconds=2 * ALIVE)
    query(alias, "UPDATE steady_queue_process SET last_heartbeat_at = %s WHERE name = 'stale'", past)


async def has_no_stale_process(alias: str) -> bool:
    return not await in_thread(query, alias, "SELECT id FROM steady_queue_process WHERE name = 'stale'")


def now(alias: str) -> datetime:
    return SyncStore(alias).now()


@pytest.mark.parametrize("seconds", [3600, -3600], ids=["an hour ahead", "an hour behind"])
async def test_a_worker_with_a_wrong_clock_works_together_with_a_worker_with_a_right_clock(
    database: str, seconds: int, task_log: TaskLog, tmp_path: Path
) -> None:
    emitted = EmittedEvents()
    begun = await in_thread(now, database)
    await rests.using(run_after=timedelta(minutes=30)).aenqueue(task_log.path, "late", 0)
    soon = await rests.using(run_after=timedelta(seconds=2)).aenqueue(task_log.path, "soon", 0)
    held = await awaits_alone.aenqueue(task_log.path, "held", str(tmp_path / "file"))
    with command(database, "--async", alive=ALIVE, setup=SETUP, environ=wrong_by(seconds)) as process:
        await task_log.has_begun("held")
        await wait_for_results(soon)
        (pid,) = [row.pid for row in await in_thread(rows, database)]
        await in_thread(leave_stale_process, database)
        await wait_for_output(process, "pruned stale")
        async with running(worker(), events=emitted):
            while not emitted.of(ProcessPruned):  # the first of the two processes prunes the next one
                await in_thread(leave_stale_process, database)
                await until(lambda: has_no_stale_process(database), "no process prunes the stale process")
            (tmp_path / "file").touch()
            await wait_for_results(held)
            assert pid in {row.pid for row in await in_thread(rows, database)}
        printed = await stop_command(process)
    over = await in_thread(now, database)
    assert {event.name for event in emitted.of(ProcessPruned)} == {"stale"}
    assert "lost its claim" not in printed
    assert sorted(task_log.began) == ["held", "soon"]
    assert await in_thread(counts, database) == {"scheduled": 1}
    assert await in_thread(count, database, "process") == 0
    for result in (soon, held):
        times: list[Any] = [result.enqueued_at, result.started_at, result.finished_at]
        assert sorted([begun, *times, over]) == [begun, *times, over]
    assert soon.started_at is not None
    assert soon.finished_at is not None
    assert soon.started_at - begun >= timedelta(seconds=2)
    (its_time,) = await values(soon)
    assert its_time - soon.finished_at.timestamp() == pytest.approx(seconds, abs=60)  # its clock was really wrong
