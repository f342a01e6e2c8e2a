"""Unique tasks in a running process: the keys are free when the tasks have ended, in the loop and in threads."""

from __future__ import annotations

import pytest

from steady_queue import Unique
from steady_queue.aio import running
from steady_queue.errors import DuplicateTask
from tests.shop.tasks import add, greet
from tests.support.databases.tables import count
from tests.support.runtime import in_thread, until, values, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]


async def test_the_key_is_free_when_the_task_has_finished_in_either_lane(database: str) -> None:
    sync, in_loop = add.using(unique=Unique()), greet.using(unique=Unique())
    async with running(worker()):
        for _ in range(2):
            assert await values(await sync.aenqueue(1), await in_loop.aenqueue("Ada")) == [1, "Hello, Ada!"]
    assert await in_thread(count, database, "uniquekey") == 0


@pytest.mark.parametrize("until_when", ["started", "finished"])
async def test_a_running_task_has_its_key_only_until_it_is_started_if_it_says_so(
    database: str, until_when: str
) -> None:
    once = recording.awaits.using(unique=Unique(key="once", until=until_when))  # type: ignore[arg-type]
    async with running(worker(coroutines=1)):
        first = await once.aenqueue(1)
        await until(lambda: len(task_record.began) == 1)
        if until_when == "finished":
            with pytest.raises(DuplicateTask):
                await once.aenqueue(2)
            task_record.gate.set()
            await values(first)
        else:
            second = await once.aenqueue(2)
            task_record.gate.set()
            await values(first, second)
    assert await in_thread(count, database, "uniquekey") == 0
