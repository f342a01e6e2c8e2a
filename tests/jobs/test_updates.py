"""Following a task: its states, its progress and its log, in the order in which they happen."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from steady_queue import StateChanged, TaskState
from steady_queue.db import watcher as watchers
from steady_queue.jobs.results.updates import Changes
from steady_queue.jobs.running.reports import LogLine, Progress
from steady_queue.store.job import JobState, Lane, Status
from steady_queue.store.outcome import Retried
from tests.shop import tasks
from tests.support.databases.tables import query
from tests.support.store.manual_worker import Worker, report
from tests.support.store.stores import SyncStore
from tests.support.wait import in_thread

if TYPE_CHECKING:
    from steady_queue import Update

pytestmark = [pytest.mark.contract, pytest.mark.anyio]

AT = "2026-11-18T12:00:00.000+00:00"


def line(message: str, attempt: int = 1) -> str:
    return json.dumps({"at": AT, "attempt": attempt, "message": message})


def progress(done: int, total: int | None = None) -> str:
    return json.dumps({"done": done, "total": total, "message": "", "at": AT})


def seen(status: Status, *, progress: str | None = None, log: str | None = None, attempts: int = 0) -> JobState:
    return JobState(UUID(int=1), status, None, 0, attempts, progress, log)


# -- what has changed -------------------------------------------------------------------------------------------------


def test_the_first_update_is_the_current_state() -> None:
    assert list(Changes().find(seen(Status.READY))) == [StateChanged(TaskState.READY, 0)]


def test_only_what_has_changed_is_an_update() -> None:
    changes = Changes()
    first = seen(Status.CLAIMED, progress=progress(1, 3), log=line("a"))
    assert len(list(changes.find(first))) == 3
    assert list(changes.find(first)) == []
    (update,) = changes.find(first._replace(progress=progress(2, 3)))
    assert isinstance(update, Progress)
    assert (update.done, update.total) == (2, 3)


def test_a_final_state_comes_after_what_the_task_reported_last() -> None:
    changes = Changes()
    list(changes.find(seen(Status.CLAIMED)))
    found = list(changes.find(seen(Status.FINISHED, progress=progress(3, 3), log=line("done"), attempts=1)))
    assert [type(update) for update in found] == [LogLine, Progress, StateChanged]


def test_each_line_of_the_log_is_one_update_although_the_oldest_are_cut_off() -> None:
    changes = Changes()
    texts = ["a", "b", "c", "d", "e", "f"]
    found: list[Update] = []
    for last in range(1, len(texts) + 1):
        kept = "\n".join(line(text) for text in texts[max(0, last - 2) : last])
        found += changes.find(seen(Status.CLAIMED, log=f'ut off"}}\n{kept}'))
    assert [update.message for update in found if isinstance(update, LogLine)] == texts


def test_what_another_program_wrote_into_the_columns_is_left_out() -> None:
    found = list(Changes().find(seen(Status.CLAIMED, progress='["no"]', log="no\n[1]\n{}")))
    assert found == [StateChanged(TaskState.RUNNING, 1)]


# -- from the database ------------------------------------------------------------------------------------------------


async def test_updates_follow_a_task_from_its_state_to_its_end(database: str) -> None:
    result = await tasks.add.aenqueue(1)
    updates = result.updates(timeout=20)
    assert await anext(updates) == StateChanged(TaskState.READY, 0)
    worker = await in_thread(Worker, database)
    claimed = await in_thread(worker.claim)
    assert await anext(updates) == StateChanged(TaskState.RUNNING, 1)
    await in_thread(write, database, progress(1, 2), line("half"))
    assert [type(await anext(updates)), type(await anext(updates))] == [LogLine, Progress]
    await in_thread(worker.finish, claimed, "42")
    assert await anext(updates) == StateChanged(TaskState.FINISHED, 1)
    with pytest.raises(StopAsyncIteration):
        await anext(updates)
    assert (result.state, result.return_value) == (TaskState.FINISHED, 42)
    assert not watchers.watcher(database).has_watches


def write(database: str, progress: str, log: str) -> None:
    query(database, "UPDATE steady_queue_job SET progress = %s, log = %s", progress, log)


async def test_a_retry_is_an_update_and_not_the_end(database: str) -> None:
    result = await tasks.add.aenqueue(1)
    store = await in_thread(SyncStore, database)

    def fail_once() -> None:
        (claimed,) = store.claim(store.worker("worker-1"), lane=Lane.THREAD)
        store.settle(Retried(claimed, report(ValueError("no")), delay_seconds=60), process_name="worker-1")

    await in_thread(fail_once)
    updates = result.updates(timeout=20)
    assert await anext(updates) == StateChanged(TaskState.RETRYING, 1)
    await updates.aclose()
    assert not watchers.watcher(database).has_watches


async def test_updates_time_out_as_a_whole(database: str) -> None:
    result = await tasks.add.aenqueue(1)
    found: list[Update] = []
    with pytest.raises(TimeoutError, match="it is ready"):
        async for update in result.updates(timeout=1.5):
            found.append(update)
    assert found == [StateChanged(TaskState.READY, 0)]


async def test_a_slow_reader_gets_the_newest_state(database: str) -> None:
    result = await tasks.add.aenqueue(1)
    updates = result.updates(timeout=20)
    await anext(updates)
    worker = await in_thread(Worker, database)
    await in_thread(worker.finish, await in_thread(worker.claim), "1")
    await asyncio.sleep(0)
    last = [update async for update in updates][-1]
    assert last == StateChanged(TaskState.FINISHED, 1)
