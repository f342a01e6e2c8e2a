"""`manage.py steady_queue` as a user runs it: a process of its own on the suite's settings and servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tests.support.processes.scripts import REPOSITORY
from tests.support.wait import WAIT_TIMEOUT_SECONDS, in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Command = subprocess.Popen[str]

#: A user's manage.py, whose settings choose the database and a short shutdown timeout.
MANAGE = """
import sys
from datetime import timedelta
import steady_queue
steady_queue.database = {alias!r}
steady_queue.shutdown_timeout = timedelta(seconds={shutdown_timeout_seconds})
steady_queue.process_alive_threshold = timedelta(seconds={alive})
steady_queue.process_heartbeat_interval = timedelta(seconds={alive} / 10)
{setup}
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "steady_queue", *sys.argv[1:]])
"""


@contextmanager
def command(
    alias: str,
    *arguments: str,
    alive: float = 300,
    shutdown_timeout_seconds: float = 1,
    port: int | None = None,
    setup: str = "",
    environ: dict[str, str] | None = None,
) -> Iterator[Command]:
    """The command in a process of its own, which is killed if the test has not ended it.

    The end of the block waits until its children have exited as well: they hold the pipe that it prints to.
    """
    other_port = {f"STEADY_QUEUE_TEST_{alias.upper()}_PORT": str(port)} if port is not None else {}
    text = MANAGE.format(alias=alias, alive=alive, shutdown_timeout_seconds=shutdown_timeout_seconds, setup=setup)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **other_port, **(environ or {})}
    with python("-W", "error", "-c", text, *arguments, environ=environment) as process:
        yield process


@contextmanager
def python(*words: str, cwd: Path = REPOSITORY, environ: dict[str, str]) -> Iterator[Command]:
    """An interpreter in a process of its own, which is ended with all that it has started if the test has not."""
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGQUIT)  # children of a killed supervisor may run for longer
                with suppress(subprocess.TimeoutExpired):
                    process.wait(5)
            process.kill()
            with suppress(ValueError):  # the output has been read to its end
                process.communicate(timeout=WAIT_TIMEOUT_SECONDS)


async def read_output(process: Command, *, code: int = 0) -> str:
    """Wait until the command and its children have ended, the command with this code; return the output."""
    printed, _ = await in_thread(process.communicate, None, WAIT_TIMEOUT_SECONDS)
    assert process.returncode == code, printed
    return printed


async def wait_for_output(process: Command, *texts: str) -> str:
    """Read until each text has occurred in a line, in any order; return the last line that was read."""
    assert process.stdout is not None
    lines: list[str] = []
    missing = set(texts)
    while missing:
        lines.append(await in_thread(process.stdout.readline))
        assert lines[-1], f"it ended by itself: {lines}"
        missing = {text for text in missing if text not in lines[-1]}
    return lines[-1]


async def stop_command(process: Command, number: signal.Signals = signal.SIGTERM) -> str:
    """Signal the command to stop and wait until it has; return the output after the signal."""
    process.send_signal(number)
    return await read_output(process)
