"""The output of the command where the program that reads it ends first, as `head` does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.processes.commands import MANAGE
from tests.support.processes.scripts import REPOSITORY
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore
from tests.support.wait import WAIT_TIMEOUT_SECONDS

pytestmark = pytest.mark.only_on("sqlite")

#: More lines than the buffer of a pipe takes.
MANY = 1_000


def start(alias: str, *words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    text = MANAGE.format(alias=alias, alive=20, shutdown_timeout_seconds=1, setup="")
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(
        [sys.executable, "-c", text, *words], cwd=REPOSITORY, env=environ, stdout=subprocess.PIPE, stderr=stderr
    )


def end(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Close the pipe, and return the exit status and what was written to stderr."""
    assert process.stdout is not None
    process.stdout.close()
    try:
        status = process.wait(WAIT_TIMEOUT_SECONDS)
    finally:
        process.kill()
    return status, process.stderr.read() if process.stderr is not None else b""


def test_a_list_of_which_one_line_is_read_ends_without_a_traceback(database: str) -> None:
    SyncStore(database).enqueue(*[job() for _ in range(MANY)])
    with start(database, "jobs", "--limit", str(MANY)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"id ")
        assert end(process) == (141, b"")


@pytest.mark.parametrize("words", [["jobs"], ["jobs", "--json"], ["status"], ["queues"], ["check"], ["health"]])
def test_output_of_which_nothing_is_read_ends_without_a_traceback(database: str, words: list[str]) -> None:
    SyncStore(database).enqueue(job())
    with start(database, *words) as process:
        assert end(process) == (141, b"")


def test_it_also_ends_where_errors_go_to_the_same_pipe(database: str) -> None:
    with start(database, "jobs", "--queue", "none", stderr=subprocess.STDOUT) as process:
        assert end(process) == (141, b"")
