"""The sums of tasks: each minute, and at the stop over all processes, including those that were replaced."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.aio.supervisor.tasks import IMPORT_TASKS, blocks
from tests.shop.tasks import add, fail, sleeps_for_long
from tests.support.databases.tables import counts
from tests.support.processes.commands import command, read_output, stop_command, wait_for_output
from tests.support.processes.process_rows import wait_for_worker
from tests.support.runtime import in_thread, until, values, wait_for_results

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres")]

BOTH = pytest.mark.parametrize("arguments", [[], ["--async"]], ids=["supervised", "in one loop"])


def totals(printed: str) -> tuple[int, int, int]:
    """Of the JSON log: done, failed, released."""
    (line,) = [json.loads(line) for line in printed.splitlines() if '"CommandStopped"' in line]
    fields = line["fields"]
    assert line["level"] == "INFO"
    assert fields["seconds"] > 0
    assert fields["per_second"] == pytest.approx((fields["done"] + fields["failed"]) / fields["seconds"], abs=0.6)
    return fields["done"], fields["failed"], fields["released"]


@BOTH
async def test_a_drain_ends_with_the_totals(database: str, arguments: list[str]) -> None:
    for number in range(20):
        await add.aenqueue(number)
    await fail.aenqueue("on purpose")
    with command(database, "--drain", "--log-format", "json", *arguments) as process:
        assert totals(await read_output(process)) == (20, 1, 0)


async def test_the_totals_include_replaced_processes_and_tasks_that_a_killed_one_left(database: str) -> None:
    with command(database, "--only-work", "--log-format", "json") as process:
        await values(*[await add.aenqueue(number) for number in range(5)])
        # The child reports at least every five seconds: what it did after its last report is not counted.
        first = await wait_for_worker(database)
        os.kill(first, signal.SIGTERM)
        await wait_for_output(process, "replaces process")
        await values(await add.aenqueue(5))
        lost = await sleeps_for_long.aenqueue()
        await until(lambda: has_claim(database))
        second = await wait_for_worker(database, other_than=first)
        os.kill(second, signal.SIGKILL)
        await wait_for_results(lost)
        done, failed, released = totals(await stop_command(process))
    assert (failed, released) == (1, 0)
    assert done in (5, 6)  # 6 if the killed process had reported its only task


async def has_claim(alias: str) -> bool:
    return (await in_thread(counts, alias)).get("claimed") == 1


@BOTH
async def test_a_task_that_outlasts_the_stop_is_released_or_failed_in_the_totals(
    database: str, arguments: list[str], tmp_path: Path
) -> None:
    with command(database, "--log-format", "json", *arguments, setup=IMPORT_TASKS) as process:
        await wait_for_worker(database)
        log, never = tmp_path / "log", tmp_path / "never"
        await blocks.aenqueue(str(log), "blocks", str(never))
        await until(log.exists)
        printed = await stop_command(process)
    # In one loop there is no supervisor that could release it after the process has exited.
    assert totals(printed) == ((0, 1, 0) if arguments else (0, 0, 1))


@BOTH
async def test_sums_are_logged_while_tasks_run_and_not_when_nothing_ran(database: str, arguments: list[str]) -> None:
    setup = "from steady_queue.aio.command import totals\ntotals.SUM_SECONDS = 0.5"
    with command(database, *arguments, setup=setup) as process:
        await wait_for_worker(database)
        await values(*[await add.aenqueue(number) for number in range(3)])
        line = await wait_for_output(process, " done, 0 failed, 0 released in ")
        assert " 3 tasks done" in line or " 1 task done" in line or " 2 tasks done" in line
        printed = await stop_command(process)
    assert " 0 tasks done, 0 failed, 0 released" not in printed
