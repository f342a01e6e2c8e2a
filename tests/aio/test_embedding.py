"""The runtime in a user's program, in a real process: it ends when the program does, also if its tasks do not."""

from __future__ import annotations

import pytest

import steady_queue
from tests.support.databases.tables import count, query
from tests.support.processes.scripts import run_script

PROGRAM = """
from datetime import timedelta
from steady_queue.aio import running
from tests.shop import tasks

steady_queue.shutdown_timeout = timedelta(seconds=0.3)

async def main():
    async with running():
        {body}

asyncio.run(main())
print("over")
"""

UNTIL_BEGUN = """
        began = asyncio.Event()
        loop = asyncio.get_running_loop()
        tasks.say_that_it_began = lambda: loop.call_soon_threadsafe(began.set)
        await tasks.{task}.aenqueue()
        await began.wait()
"""


@pytest.mark.smoke
def test_a_program_runs_its_tasks_and_ends(database: str) -> None:
    body = """
        result = await tasks.add.aenqueue(1, 2)
        while not result.is_finished:
            await asyncio.sleep(0.01)
            await result.arefresh()
        print(result.return_value)
"""
    assert run_script(PROGRAM.format(body=body), alias=database) == "3\nover\n"
    assert count(database, "process") == 0


@pytest.mark.only_on("sqlite")
def test_a_program_logs_the_start_and_the_stop_at_info(database: str) -> None:
    text = "import logging, sys\nlogging.basicConfig(level='INFO', stream=sys.stdout, format='%(message)s')\n"
    printed = run_script(text + PROGRAM.format(body="pass"), alias=database)
    started, version, *_, stopped, over = printed.splitlines()
    assert "started on SQLite (sqlite): worker (*; 100 coroutines, 3 threads)" in started
    assert version == f"Steady Queue {steady_queue.__version__} runs tasks in this process"
    assert "stopped: " in stopped
    assert over == "over"


@pytest.mark.parametrize("task", ["never_ends", "never_ends_in_orm_lane"])
def test_a_thread_that_never_returns_does_not_keep_a_program_alive(database: str, task: str) -> None:
    body = UNTIL_BEGUN.format(task=task)
    assert "over" in run_script(PROGRAM.format(body=body), alias=database, quiet=False)
    (failure,) = query(database, "SELECT exception_class FROM steady_queue_failedexecution")
    assert failure == ("steady_queue.processes.ProcessExitError",)
    assert count(database, "process") == 0


def test_an_error_in_the_block_leaves_it_as_it_was_raised(database: str) -> None:
    body = "raise LookupError('of the program')"
    text = PROGRAM.format(body=body).replace(
        "asyncio.run(main())", "try:\n    asyncio.run(main())\nexcept LookupError as error:\n    print(error)"
    )
    assert run_script(text, alias=database) == "of the program\nover\n"
