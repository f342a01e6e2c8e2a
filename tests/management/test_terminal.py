"""The command on a real terminal: colours, the status line, narrow and closed terminals."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from steady_queue.jobs.compat import NATIVE
from tests.shop.tasks import add, fail
from tests.support.processes.commands import MANAGE
from tests.support.processes.scripts import REPOSITORY
from tests.support.processes.terminals import on_a_terminal
from tests.support.runtime import WAIT_TIMEOUT_SECONDS, in_thread, until, values, wait_for_results

if TYPE_CHECKING:
    import subprocess
    from contextlib import AbstractContextManager

    from tests.support.processes.terminals import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]

STATUS = re.compile(r"\d\d:\d\d:\d\d · 1 process · [\d,]+ done · \d+ failed · \d+ running · \d+ waiting · [\d.]+/s")
LOG_LINE = re.compile(r"\d\d:\d\d:\d\d (INFO|WARNING|ERROR) ")


def terminal(
    alias: str, *arguments: str, columns: int = 100, setup: str = "", environ: dict[str, str] | None = None
) -> AbstractContextManager[tuple[subprocess.Popen[bytes], Screen]]:
    text = MANAGE.format(alias=alias, alive=300, shutdown_timeout_seconds=1, setup=setup)
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "DJANGO_COLORS")}
    return on_a_terminal(
        [sys.executable, "-c", text, *arguments],
        cwd=REPOSITORY,
        environ={**inherited, "TERM": "xterm", "PYTHONPATH": str(REPOSITORY), **(environ or {})},
        columns=columns,
    )


async def stop(process: subprocess.Popen[bytes], screen: Screen) -> None:
    process.terminate()
    assert await in_thread(process.wait, WAIT_TIMEOUT_SECONDS) == 0
    await until(lambda: "Steady Queue stopped: " in screen.text, "it does not print its totals")


@pytest.mark.parametrize("arguments", [["--only-work"], ["--async"]], ids=["supervised", "in one loop"])
async def test_the_status_line_counts_and_is_never_mixed_with_other_output(database: str, arguments: list[str]) -> None:
    # With DEBUG, Django's own handler writes lines; and the project prints.
    setup = "import tests.settings\ntests.settings.DEBUG = True\nfrom steady_queue import events\n"
    setup += "events.subscribe(lambda event: print('printed'), only=[events.JobsSettled])"
    with terminal(database, *arguments, setup=setup) as (process, screen):
        assert await values(await add.aenqueue(1)) == [1]
        await wait_for_results(await fail.aenqueue("on purpose"))
        await until(lambda: any("1 done · 1 failed" in status for status in screen.statuses), "no status is shown")
        await until(lambda: any("0 waiting" in status for status in screen.statuses), "nothing counts what waits")
        await stop(process, screen)
    statuses = [status for status in screen.statuses if "1 failed" in status]
    assert all(STATUS.fullmatch(status) for status in statuses), statuses
    assert "\x1b[1;31m1 failed\x1b[0m" in screen.text
    assert "\x1b[32m1 done\x1b[0m" in screen.text
    for line in screen.lines:
        assert " · " not in line, line
    assert screen.lines.count("printed") == 2
    assert LOG_LINE.match(screen.lines[-2])
    assert "Steady Queue stopped: 1 task done, 1 failed, 0 released in " in screen.lines[-2]
    if NATIVE:
        assert any(line.startswith("Task id=") and line.endswith("state=SUCCESSFUL") for line in screen.lines)


async def test_the_banner_has_colours_that_are_not_red_and_a_warning_is_yellow(database: str) -> None:
    setup = "import tests.settings\nfrom steady_queue.configuration import Configuration\n"
    setup += "tests.settings.STEADY_QUEUE = Configuration.Options(workers=[Configuration.Worker(queues='a*b')])"
    with terminal(database, "--async", "--drain", setup=setup) as (process, screen):
        assert await in_thread(process.wait, WAIT_TIMEOUT_SECONDS) == 0
        await until(lambda: "Steady Queue stopped: " in screen.text, "it does not print its totals")
    assert "31m" not in screen.text
    warning, first = screen.text.splitlines()[:2]
    assert warning.startswith("\x1b[33mwarning: ")
    assert first.startswith("\x1b[1mSteady Queue ")
    assert "\x1b[32mworker     \x1b[0m a*b: 100 coroutines, 3 threads" in screen.text


@pytest.mark.parametrize(
    ("arguments", "environ", "is_coloured"),
    [([], {"NO_COLOR": "1"}, False), (["--no-color"], {}, False), (["--force-color"], {"NO_COLOR": "1"}, True)],
    ids=["NO_COLOR", "--no-color", "--force-color"],
)
async def test_who_wants_no_colours_gets_none(
    database: str, arguments: list[str], environ: dict[str, str], is_coloured: bool
) -> None:
    with terminal(database, "--async", "--drain", *arguments, environ=environ) as (process, screen):
        assert await in_thread(process.wait, WAIT_TIMEOUT_SECONDS) == 0
        await until(lambda: "Steady Queue stopped: " in screen.text, "it does not print its totals")
    assert bool(re.search(r"\x1b\[[\d;]+m", screen.text)) == is_coloured
    assert screen.statuses


async def test_a_terminal_without_escape_sequences_gets_none(database: str) -> None:
    with terminal(database, "--async", "--drain", environ={"TERM": "dumb"}) as (process, screen):
        assert await in_thread(process.wait, WAIT_TIMEOUT_SECONDS) == 0
        await until(lambda: "Steady Queue stopped: " in screen.text, "it does not print its totals")
    assert not set("\x1b\r") & set(screen.text)


@pytest.mark.parametrize("no_color", ["", "1"])
async def test_a_problem_is_red_unless_there_are_no_colours(database: str, no_color: str) -> None:
    with terminal(database, "--threads", "many", environ={"NO_COLOR": no_color}) as (process, screen):
        assert await in_thread(process.wait, WAIT_TIMEOUT_SECONDS) == 1
        await until(lambda: "--threads must be an integer" in screen.text, "it does not print the problem")
    assert ("\x1b[31;1m" in screen.text, "\x1b" in screen.text) == (not no_color, not no_color)


async def test_a_narrow_terminal_has_a_shorter_line_and_a_resized_one_a_longer(database: str) -> None:
    with terminal(database, "--async", columns=30) as (process, screen):
        await until(lambda: len(screen.statuses) > 1, "no status")
        assert max(map(len, screen.statuses)) < 30
        assert "0 done · 0 failed" in screen.statuses[-1]
        screen.resize(100)
        await until(lambda: "waiting" in screen.statuses[-1], "the line does not follow the width")
        screen.resize(20)
        await until(lambda: len(screen.statuses[-1]) < 20, "the line does not follow the width")
        await stop(process, screen)


@pytest.mark.parametrize("arguments", [[], ["--async"]], ids=["supervised", "in one loop"])
async def test_a_terminal_that_is_closed_stops_nothing(database: str, arguments: list[str]) -> None:
    with terminal(database, *arguments) as (process, screen):
        await until(lambda: "running" in screen.text, "no status")
        screen.close()
        assert await values(await add.aenqueue(1)) == [1]
        process.terminate()
        assert await in_thread(process.wait, WAIT_TIMEOUT_SECONDS) == 0
