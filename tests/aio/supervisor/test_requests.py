"""Real processes are asked to stop, and for the stacks of their tasks."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from steady_queue import actions
from tests.aio.supervisor.tasks import IMPORT_TASKS, awaits, blocks
from tests.support.databases.tables import query
from tests.support.processes.commands import command, read_output
from tests.support.processes.process_rows import wait_for_worker
from tests.support.runtime import in_thread, until, values

if TYPE_CHECKING:
    from pathlib import Path

    from steady_queue.actions import ProcessReply
    from tests.aio.supervisor.task_log import TaskLog

#: Without notifications an idle process finds requests in its next turn of maintenance.
SETUP = f"""{IMPORT_TASKS}
from steady_queue.aio.maintenance import maintenance
maintenance.INTERVAL_SECONDS = 0.3"""

pytestmark = pytest.mark.anyio


async def reply_to(request: str) -> ProcessReply:
    found: list[ProcessReply] = []

    async def replied() -> bool:
        found.extend(reply for reply in [await actions.aread_reply(request)] if reply is not None)
        return bool(found)

    await until(replied, "the process has not replied")
    return found[0]


async def process_id(alias: str, pid: int) -> UUID:
    ((found,),) = await in_thread(query, alias, f"SELECT id FROM steady_queue_process WHERE pid = {pid}")
    return UUID(str(found))


@pytest.mark.usually_on("postgres")
async def test_a_child_is_asked_for_stacks_and_replaced_and_its_supervisor_is_stopped(
    database: str, task_log: TaskLog, tmp_path: Path
) -> None:
    file = str(tmp_path / "go")
    waits = await awaits.aenqueue(task_log.path, "waits", file)
    blocked = await blocks.aenqueue(task_log.path, "blocks", file)
    with command(database, "--only-work", "--threads", "1", setup=SETUP, shutdown_timeout_seconds=60) as process:
        await task_log.has_begun("waits", "blocks")
        for result, name in ((waits, "awaits"), (blocked, "blocks")):
            reply = await reply_to(await actions.arequest_stack(result, by="Ada"))
            assert reply.is_running
            assert any(line.endswith(f", in {name}") for line in reply.stack)

        child = await wait_for_worker(database)
        assert (await reply_to(await actions.astop_process(await process_id(database, child)))).is_stopping
        # The replacement starts while the child still runs its tasks, which may finish.
        replacement = await wait_for_worker(database, other_than=child)
        (tmp_path / "go").touch()
        assert await values(waits, blocked) == ["done", "done"]

        supervisor = await process_id(database, process.pid)
        request = await actions.astop_process(supervisor, by="Ada")
        printed = await read_output(process)
        assert (await reply_to(request)).is_stopping
    assert "was asked to stop by Ada" in printed
    assert f"process {replacement} replaces process {child}" in printed
    assert await in_thread(query, database, "SELECT count(*) FROM steady_queue_process") == [(0,)]


@pytest.mark.usually_on("sqlite")
async def test_a_process_with_everything_in_one_loop_exits_and_one_that_is_dead_never_replies(
    database: str, task_log: TaskLog, tmp_path: Path
) -> None:
    result = await awaits.aenqueue(task_log.path, "waits", str(tmp_path / "never"))
    with command(database, "--async", "--processes", "2", setup=SETUP) as process:
        await task_log.has_begun("waits")
        await wait_for_worker(database, other_than=process.pid)
        stop = await actions.astop_process(await process_id(database, process.pid))
        assert "stopped" in await read_output(process)  # and its child: it waits for both
        assert (await reply_to(stop)).is_stopping
    assert await in_thread(query, database, "SELECT count(*) FROM steady_queue_process") == [(0,)]
    with command(database, "--async", setup=SETUP) as process:
        await until(lambda: task_log.began == ["waits", "waits"])
        process.send_signal(signal.SIGKILL)
        await until(lambda: process.poll() is not None)
    request = await actions.arequest_stack(result)
    assert await actions.aread_reply(request) is None
