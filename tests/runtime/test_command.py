"""`manage.py steady_queue --async`, run for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from steady_queue.aio import running
from tests.shop import tasks
from tests.shop.tasks import add, greet
from tests.support.running import PATIENCE, aside, ended, error_of, values, worker
from tests.support.scripts import REPOSITORY
from tests.support.tables import count, counts, query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.proxy import Proxy

pytestmark = pytest.mark.anyio

#: A user's manage.py, whose settings choose the database and have little patience.
MANAGE = """
import sys
from datetime import timedelta
import steady_queue
steady_queue.database = {alias!r}
steady_queue.shutdown_timeout = timedelta(seconds=1)
steady_queue.process_alive_threshold = timedelta(seconds={alive})
steady_queue.process_heartbeat_interval = timedelta(seconds={alive} / 10)
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "steady_queue", *sys.argv[1:]])
"""


@contextmanager
def command(
    alias: str, *arguments: str, alive: float = 300, port: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which is killed if the test has not ended it."""
    elsewhere = {f"STEADY_QUEUE_TEST_{alias.upper()}_PORT": str(port)} if port is not None else {}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", MANAGE.format(alias=alias, alive=alive), *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **elsewhere},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def printed_by(process: subprocess.Popen[str], *, code: int = 0) -> str:
    """What it printed, when it has ended with this code."""
    printed, _ = await aside(process.communicate, None, PATIENCE)
    assert process.returncode == code, printed
    return printed


async def prints(process: subprocess.Popen[str], text: str) -> None:
    """Return when it has printed a line with this text."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or text not in lines[-1]:
        lines.append(await aside(process.stdout.readline))
        assert lines[-1], f"it ended by itself: {lines}"


async def test_the_command_runs_jobs_until_it_is_told_to_stop(database: str) -> None:
    with command(database, "--async") as process:
        added, greeted = await add.aenqueue(1), await greet.aenqueue("Ada")
        assert await values(added, greeted) == [1, "Hello, Ada!"]
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        printed = await printed_by(process)
        assert "Error" not in printed
    assert await aside(counts, database) == {}
    assert await aside(count, database, "process") == 0


@pytest.mark.only_on("sqlite")
async def test_an_interrupt_from_the_keyboard_stops_the_command_as_well(database: str) -> None:
    with command(database, "--async") as process:
        await values(await add.aenqueue(1))
        process.send_signal(signal.SIGINT)
        assert "Error" not in await printed_by(process)
    assert await aside(count, database, "process") == 0


async def test_the_command_ends_although_tasks_do_not_and_they_have_failed(database: str) -> None:
    """A thread, a coroutine that swallows its cancellation, and a thread of an ORM lane."""
    stubborn = (tasks.never_ends, tasks.never_ends_async, tasks.never_ends_in_orm_lane)
    results = [await task.aenqueue() for task in stubborn]
    with command(database, "--async") as process:
        for _ in stubborn:
            await prints(process, "began")
        process.send_signal(signal.SIGTERM)
        printed = await printed_by(process)
    assert await aside(counts, database) == {"failed": 3}, printed
    await ended(*results)
    assert {error_of(result) for result in results} == {"steady_queue.processes.ProcessExitError"}
    assert await aside(count, database, "process") == 0


@pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could go
async def test_the_command_leaves_with_75_when_trust_is_lost_while_a_thread_runs(database: str, proxy: Proxy) -> None:
    result = await tasks.never_ends.aenqueue()
    with command(database, "--async", alive=2, port=proxy.port) as process:
        await prints(process, "began")
        proxy.go()
        assert "no heartbeat for" in await printed_by(process, code=75)
    async with running(worker(threads=0)):  # at its start it buries the dead of its own machine
        await ended(result)
    assert error_of(result) == "steady_queue.processes.ProcessExitError"
    assert await aside(query, database, "SELECT attempts FROM steady_queue_job") == [(1,)]


@pytest.mark.only_on("postgres", "mariadb")
async def test_the_command_can_be_stopped_while_it_waits_for_its_database(database: str, proxy: Proxy) -> None:
    proxy.go()
    with command(database, "--async", port=proxy.port) as process:
        await prints(process, "the database cannot be used")
        process.send_signal(signal.SIGTERM)
        await printed_by(process)


def test_without_a_choice_the_command_says_what_there_is() -> None:
    with command("sqlite") as process:
        printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "--async" in printed
