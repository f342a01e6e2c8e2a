"""Signals, one or many, early or late: the command ends with 0 and leaves no process and no row."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.shop import tasks
from tests.support.databases.tables import count, counts
from tests.support.processes.commands import command, read_output, wait_for_output
from tests.support.processes.process_rows import exists, rows
from tests.support.runtime import in_thread, values

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


@pytest.mark.parametrize(
    ("arguments", "signals"),
    [
        (["--only-work"], [signal.SIGHUP]),
        (["--only-work"], [signal.SIGINT, signal.SIGTERM]),
        (["--only-work"], [signal.SIGTERM] * 5),
        (["--async"], [signal.SIGHUP, signal.SIGTERM, signal.SIGTERM]),
    ],
    ids=["hup", "int and term", "five terms", "three in one loop"],
)
async def test_it_stops_gracefully(
    database: str, tmp_path: Path, signals: list[signal.Signals], arguments: list[str]
) -> None:
    last = await tasks.awaits_file.aenqueue(str(tmp_path / "file"))
    with command(database, *arguments, shutdown_timeout_seconds=20) as process:
        await wait_for_output(process, "began")
        started = [row.pid for row in await in_thread(rows, database)]
        process.send_signal(signals[0])
        await wait_for_output(process, "is stopping: 1 task still running")
        for number in signals[1:]:
            process.send_signal(number)
        (tmp_path / "file").touch()
        await read_output(process)
    assert await values(last) == ["done"]
    assert not any(map(exists, started))
    assert await in_thread(counts, database) == {}
    assert await in_thread(count, database, "process") == 0


async def test_it_stops_while_its_processes_boot(database: str) -> None:
    waits = "import os, time\nif 'STEADY_QUEUE_CHILD' in os.environ: time.sleep(60)"
    with command(database, setup=waits) as process:
        await wait_for_output(process, "dispatcher started as process")
        process.send_signal(signal.SIGTERM)
        printed = await read_output(process)
    assert printed.count("ended: it was killed by SIGTERM") == 2
    assert "died" not in printed
    assert await in_thread(count, database, "process") == 0
