"""The output of the command: its banner, its log as text or JSON, its status line on a terminal, its help."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import steady_queue
from steady_queue.aio.command.terminal import CLEAR
from steady_queue.management.commands.steady_queue import Command as SteadyQueue
from tests.shop.tasks import add, fail
from tests.support.processes.commands import MANAGE, command, read_output, stop_command
from tests.support.processes.process_rows import pids, wait_for_worker
from tests.support.processes.scripts import REPOSITORY
from tests.support.runtime import WAIT_TIMEOUT_SECONDS, in_thread, until, values, wait_for_results

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


async def test_every_line_is_a_json_object_with_the_json_log(database: str) -> None:
    with command(database, "--log-format", "json") as process:
        assert await values(await add.aenqueue(1)) == [1]
        await wait_for_results(await fail.aenqueue("on purpose"))
        await until(lambda: has_dispatcher(database), "no dispatcher is registered")
        printed = await stop_command(process)
    lines = [json.loads(line) for line in printed.splitlines()]
    assert all({"time", "level", "message", "process"} <= line.keys() for line in lines)
    reported = [line for line in lines if line["logger"] == "steady_queue"]
    assert all("event" in line for line in reported)
    events = {line["event"] for line in reported}
    assert {"ChildStarted", "ProcessStarted", "ProcessStopping", "ProcessStopped", "ChildExited"} <= events
    assert len({line["process"] for line in reported}) == 3
    (failure,) = [line for line in lines if line["level"] == "ERROR"]
    assert "ValueError: on purpose" in failure["traceback"]
    (started, _) = [line for line in reported if line["event"] == "ChildStarted"]
    assert started["level"] == "INFO"
    assert started["message"] == f"worker (*) started as process {started['fields']['pid']}"


async def has_dispatcher(alias: str) -> bool:
    return bool(await pids(alias, "dispatcher"))


async def test_the_banner_shows_what_starts_and_without_a_terminal_there_is_no_status_line(database: str) -> None:
    arguments = ("--processes", "2", "--threads", "4", "--queues", "mail,default", "--max-tasks", "1000")
    with command(database, *arguments) as process:
        await wait_for_worker(database)
        printed = await stop_command(process)
    assert printed.splitlines()[:5] == [
        f"Steady Queue {steady_queue.__version__} on SQLite (sqlite)",
        "  worker      mail, default: 100 coroutines, 4 threads, 2 processes",
        "  dispatcher  at least every 1 s, in batches of 500",
        "  a process is replaced after 1,000 tasks",
        f"  3 processes, supervised by process {process.pid}, until TERM or Ctrl-C",
    ]
    assert "\x1b" not in printed
    assert "\r" not in printed
    assert " · " not in printed


async def test_it_is_quiet_with_verbosity_0(database: str) -> None:
    with command(database, "-v", "0", "--drain", "--async") as process:
        assert await read_output(process) == ""


async def test_a_terminal_has_a_status_line_which_log_lines_clear(database: str) -> None:
    with on_a_terminal(database, "--only-work") as (process, screen):
        assert await values(await add.aenqueue(1)) == [1]
        await wait_for_results(await fail.aenqueue("on purpose"))
        await until(lambda: "1 process · 0 running · 2 done (" in screen.text, "no status is shown")
        process.terminate()
        await in_thread(process.wait, WAIT_TIMEOUT_SECONDS)
        await until(lambda: "ended: it exited with status 0" in screen.text, "it does not print its end")
    assert process.returncode == 0
    assert "/s) · 1 failed\x1b[K\r" in screen.text
    for line in screen.text.split("\n"):
        if " INFO " in line:
            assert CLEAR in line, line
            assert " · " not in line.rpartition(CLEAR)[2], line


class Screen:
    """The text that a terminal received, read by a thread."""

    def __init__(self, descriptor: int) -> None:
        self.text = ""
        self._descriptor = descriptor

    def read(self) -> None:
        try:
            while data := os.read(self._descriptor, 65536):
                self.text += data.decode().replace("\r\n", "\n")
        except OSError:
            pass  # the last process that had it open has ended

    def go(self) -> None:
        """Close the terminal, and replace its descriptor by an empty file."""
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), self._descriptor)


@contextmanager
def on_a_terminal(alias: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Screen]]:
    """The command, whose stderr is a terminal."""
    ours, theirs = pty.openpty()
    text = MANAGE.format(alias=alias, alive=300, shutdown_timeout_seconds=1, setup="")
    screen = Screen(ours)
    reader = threading.Thread(target=screen.read)
    with subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        reader.start()
        try:
            yield process, screen
        finally:
            process.kill()
            process.wait()
            reader.join(WAIT_TIMEOUT_SECONDS)
            os.close(ours)


@pytest.mark.parametrize("arguments", [[], ["--async"]], ids=["supervised", "in one loop"])
async def test_a_terminal_that_is_closed_stops_nothing(database: str, arguments: list[str]) -> None:
    with on_a_terminal(database, *arguments) as (process, screen):
        await until(lambda: "running" in screen.text, "no status")
        screen.go()
        assert await values(await add.aenqueue(1)) == [1]
        process.terminate()
        assert await in_thread(process.wait, WAIT_TIMEOUT_SECONDS) == 0


def test_the_help_describes_every_action_the_shutdown_and_the_environment() -> None:
    text = SteadyQueue().create_parser("manage.py", "steady_queue").format_help()
    for words in (
        "manage.py steady_queue --async",
        "manage.py steady_queue check",
        "manage.py steady_queue health",
        "Stopping: TERM, or Ctrl-C",
        "QUIT, or Ctrl-C twice",
        "STEADY_QUEUE_THREADS=5",
        "settings.py",
        "--max-rss MIB",
        "--no-drain",
    ):
        assert words in text, words
