"""The output of the command: its banner, its log as text or JSON, its status line on a terminal, its help."""

from __future__ import annotations

import json

import pytest

import steady_queue
from steady_queue.management.commands.steady_queue import Command as SteadyQueue
from tests.shop.tasks import add, fail
from tests.support.processes.commands import command, read_output, stop_command
from tests.support.processes.process_rows import pids, wait_for_worker
from tests.support.runtime import until, values, wait_for_results

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


#: A logger with a console handler of its own, a warning, and an exception that a thread does not catch.
OTHER_LINES = """
import logging, threading, warnings
from django.apps import AppConfig
logging.getLogger("mine").addHandler(logging.StreamHandler())
from django.db import connection
import steady_queue.aio.process.process as process
started = process.Process._emit_started
def start_with_other_lines(self):
    logging.getLogger("mine").warning("a line of the project")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("a warning of the project")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    started(self)
process.Process._emit_started = start_with_other_lines
"""


@pytest.mark.parametrize("debug", [False, True], ids=["", "DEBUG"])
async def test_every_line_is_a_json_object_with_the_json_log(database: str, debug: bool) -> None:
    setup = f"import tests.settings\ntests.settings.DEBUG = {debug}\n{OTHER_LINES}"
    with command(database, "--log-format", "json", setup=setup) as process:
        assert await values(await add.aenqueue(1)) == [1]
        await wait_for_results(await fail.aenqueue("on purpose"))
        await until(lambda: has_dispatcher(database), "no dispatcher is registered")
        printed = await stop_command(process)
    lines = [json.loads(line) for line in printed.splitlines()]
    assert all({"time", "level", "message", "process"} <= line.keys() for line in lines)
    reported = [line for line in lines if line["logger"] == "steady_queue" and line["level"] != "CRITICAL"]
    assert all("event" in line for line in reported)
    events = {line["event"] for line in reported}
    assert {"ChildStarted", "ProcessStarted", "ProcessStopping", "ProcessStopped", "ChildExited"} <= events
    assert len({line["process"] for line in reported}) == 3
    assert (lines[0]["event"], lines[-1]["event"]) == ("CommandStarted", "CommandStopped")
    totals = lines[-1]["fields"]
    assert (totals["done"], totals["failed"], totals["released"]) == (1, 1, 0)
    assert {"a line of the project"} == {line["message"] for line in lines if line["logger"] == "mine"}
    assert all("a warning of the project" in line["message"] for line in lines if line["logger"] == "py.warnings")
    (failure,) = [line for line in lines if line["level"] == "ERROR"]
    assert "ValueError: on purpose" in failure["traceback"]
    assert {line["traceback"].splitlines()[-1] for line in lines if line["level"] == "CRITICAL"} == {
        "ZeroDivisionError: division by zero"
    }
    (started, _) = [line for line in reported if line["event"] == "ChildStarted"]
    assert started["level"] == "INFO"
    assert started["message"] == f"worker (*) started as process {started['fields']['pid']}"


async def test_problems_at_the_start_are_json_with_the_json_log(database: str) -> None:
    with command(database, "--log-format", "json", "--threads", "many") as process:
        (line,) = (await read_output(process, code=1)).splitlines()
    refused = json.loads(line)
    assert (refused["level"], refused["event"]) == ("ERROR", "CommandFailed")
    assert "--threads must be an integer, not 'many'" in refused["message"]
    setup = "import tests.settings\nfrom steady_queue.configuration import Configuration\n"
    setup += "tests.settings.STEADY_QUEUE = Configuration.Options(workers=[Configuration.Worker(queues='a*b')])"
    with command(database, "--drain", "--async", environ={"STEADY_QUEUE_LOG_FORMAT": "json"}, setup=setup) as process:
        lines = [json.loads(line) for line in (await read_output(process)).splitlines()]
    assert [line["event"] for line in lines[:2]] == ["CheckWarning", "CommandStarted"]
    assert lines[0]["level"] == "WARNING"
    assert "'a*b' matches no queue" in lines[0]["message"]


async def test_with_verbosity_2_the_log_has_the_start_and_the_end_of_each_task(database: str) -> None:
    await add.aenqueue(1)
    with command(database, "--drain", "--async", "-v", "2") as process:
        printed = await read_output(process)
    assert "state=RUNNING" in printed
    assert "state=SUCCE" in printed
    await add.aenqueue(1)
    with command(database, "--drain", "--async") as process:
        assert "state=" not in await read_output(process)


async def has_dispatcher(alias: str) -> bool:
    return bool(await pids(alias, "dispatcher"))


async def test_the_banner_shows_what_starts_and_without_a_terminal_there_is_no_status_line(database: str) -> None:
    arguments = ("--processes", "2", "--threads", "4", "--queues", "mail,default", "--max-tasks", "1000")
    with command(database, *arguments) as process:
        await wait_for_worker(database)
        printed = await stop_command(process)
    assert printed.splitlines()[:7] == [
        f"Steady Queue {steady_queue.__version__} on SQLite (sqlite)",
        f"  supervisor  process {process.pid} with 3 child processes",
        "  worker      mail, default: 100 coroutines, 4 threads, 2 processes",
        "  dispatcher  at least every 1 s, in batches of 500",
        "  scheduler   recurring tasks of the code and the database",
        "  a process is replaced after 1,000 tasks",
        "  Ctrl-C or TERM stops it gracefully, Ctrl-C twice or QUIT at once",
    ]
    assert "\x1b" not in printed
    assert "\r" not in printed
    assert " · " not in printed


async def test_it_is_quiet_with_verbosity_0(database: str) -> None:
    with command(database, "-v", "0", "--drain", "--async") as process:
        assert await read_output(process) == ""


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
        "-v 0 shows only warnings and errors",
        "NO_COLOR",
        "status line",
    ):
        assert words in text, words
