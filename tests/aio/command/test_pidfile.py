"""`steady_queue.supervisor_pidfile`: contains the process id, and keeps a second supervisor from starting."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import steady_queue
from steady_queue.aio.command.pidfile import hold_pidfile
from steady_queue.errors import ConfigurationError
from tests.support.databases.tables import count
from tests.support.processes.commands import command, read_output, stop_command, wait_for_output
from tests.support.processes.scripts import REPOSITORY
from tests.support.runtime import in_thread
from tests.support.threads import together

LONG_AGO = 1_000_000_000.0
MINE = f"{os.getpid()}\n"


def setting(path: Path) -> str:
    return f"steady_queue.supervisor_pidfile = {str(path)!r}"


@pytest.mark.anyio
@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("arguments", [[], ["--async"]], ids=["supervisor", "async"])
async def test_a_second_is_refused_while_the_first_runs(database: str, tmp_path: Path, arguments: list[str]) -> None:
    file = tmp_path / "run" / "queue.pid"
    with command(database, *arguments, setup=setting(file)) as process:
        await wait_for_output(process, "started")
        assert file.read_text() == f"{process.pid}\n"
        with command(database, "--async", setup=setting(file)) as second:
            printed = await read_output(second, code=1)
        assert f"CommandError: already running as process {process.pid}, by the pidfile {file}" in printed
        assert file.read_text() == f"{process.pid}\n"
        await stop_command(process)
    assert not file.exists()
    assert await in_thread(count, database, "process") == 0


@pytest.mark.anyio
@pytest.mark.only_on("sqlite")
async def test_of_two_supervisors_that_start_at_once_one_runs_and_replaces_the_pidfile_of_a_dead_one(
    database: str, tmp_path: Path
) -> None:
    file = tmp_path / "queue.pid"
    file.write_text(f"{ended_pid()}\n")
    with (
        command(database, "--async", setup=setting(file)) as one,
        command(database, "--async", setup=setting(file)) as two,
    ):
        loser = await in_thread(first_to_end, one, two)
        winner = two if loser is one else one
        assert "already running as process" in await read_output(loser, code=1)
        await wait_for_output(winner, "started on")
        assert file.read_text() == f"{winner.pid}\n"
        await stop_command(winner)
    assert not file.exists()


def first_to_end(*processes: subprocess.Popen[str]) -> subprocess.Popen[str]:
    while True:
        for process in processes:
            if process.poll() is not None:
                return process
        time.sleep(0.01)


def ended_pid() -> int:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait()
    return process.pid


def test_by_default_there_is_no_pidfile() -> None:
    assert steady_queue.supervisor_pidfile is None
    with hold_pidfile(None):
        pass


def test_it_contains_this_process_id_while_it_is_held(tmp_path: Path) -> None:
    file = tmp_path / "some" / "where" / "queue.pid"
    with hold_pidfile(str(file)):
        assert file.read_text() == MINE
        with (
            pytest.raises(ConfigurationError, match=f"already running as process {os.getpid()}"),
            hold_pidfile(str(file)),
        ):
            raise AssertionError
        assert file.read_text() == MINE
    assert not file.exists()
    with pytest.raises(KeyError), hold_pidfile(str(file)):
        raise KeyError
    assert not file.exists()


@pytest.mark.parametrize("text", ["", "\n", "0", "4194305", " 4194305 \n", "9" * 20, "\x00" * 8])
def test_a_file_that_is_not_locked_and_names_no_process_is_replaced(tmp_path: Path, text: str) -> None:
    file = tmp_path / "queue.pid"
    file.write_text(text, encoding="latin-1")
    with hold_pidfile(str(file)):
        assert file.read_text() == MINE
    assert not file.exists()


def test_a_pidfile_that_names_a_dead_process_or_a_younger_one_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "queue.pid"
    file.write_text(f"{ended_pid()}\n")
    with hold_pidfile(str(file)):
        assert file.read_text() == MINE
    file.write_text(f"{os.getppid()}\n")
    os.utime(file, (LONG_AGO, LONG_AGO))
    with hold_pidfile(str(file)):
        assert file.read_text() == MINE


def test_a_pidfile_that_names_a_living_process_without_a_lock_is_respected(tmp_path: Path) -> None:
    file = tmp_path / "queue.pid"
    text = f"{os.getppid()}\n"
    file.write_text(text)
    with (
        pytest.raises(ConfigurationError, match=f"process {os.getppid()}, named by the pidfile {file}, is alive"),
        hold_pidfile(str(file)),
    ):
        raise AssertionError
    assert file.read_text() == text


def test_a_pidfile_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "file" / "queue.pid", "(Not a directory|File exists)")):
        with (
            pytest.raises(ConfigurationError, match=f"the pidfile {path} cannot be written: {why}"),
            hold_pidfile(str(path)),
        ):
            raise AssertionError


@pytest.mark.parametrize(
    "text",
    ["garbage", "-1", "12 34", "9" * 40, "\x00\xff", "1\n2\n", "PASSWORD = 'secret'\n", " " * 100, "4711\n" * 20],
)
def test_a_file_that_is_no_pidfile_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.py"
    file.write_text(text, encoding="latin-1")
    with (
        pytest.raises(ConfigurationError, match=refusal(file, "holds something other than a process id")),
        hold_pidfile(file),
    ):
        raise AssertionError
    assert file.read_text(encoding="latin-1") == text


@pytest.mark.parametrize("text", [None, "", "4194305\n", "precious"], ids=["dangling", "empty", "a pid", "precious"])
def test_a_symbolic_link_is_not_followed(tmp_path: Path, text: str | None) -> None:
    target, file = tmp_path / "target", tmp_path / "queue.pid"
    if text is not None:
        target.write_text(text)
    file.symlink_to(target)
    with (
        pytest.raises(ConfigurationError, match=refusal(file, "is a symbolic link, which is not followed")),
        hold_pidfile(file),
    ):
        raise AssertionError
    assert file.is_symlink()
    assert (target.read_text() if target.exists() else None) == text


def test_a_symbolic_link_among_the_directories_is_followed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with hold_pidfile(tmp_path / "link" / "queue.pid"):
        assert (tmp_path / "run" / "queue.pid").read_text() == MINE
    assert list((tmp_path / "run").iterdir()) == []


def test_a_file_with_a_second_name_is_refused_and_kept(tmp_path: Path) -> None:
    """A user who may write to the directory could link another user's pidfile there."""
    other, file = tmp_path / "other.pid", tmp_path / "queue.pid"
    other.write_text("4194305\n")
    os.link(other, file)
    with pytest.raises(ConfigurationError, match=refusal(file, "has another name as well")), hold_pidfile(file):
        raise AssertionError
    assert other.read_text() == "4194305\n"


def test_what_is_no_regular_file_is_refused_and_kept(tmp_path: Path) -> None:
    pipe = tmp_path / "queue.pid"
    os.mkfifo(pipe)
    for path in (pipe, Path(os.devnull)):
        with pytest.raises(ConfigurationError, match=refusal(path, "is not a regular file")), hold_pidfile(path):
            raise AssertionError
    assert pipe.is_fifo()


def test_a_link_created_at_its_path_while_it_is_held_is_kept(tmp_path: Path) -> None:
    """Even a link to the pidfile itself."""
    file = tmp_path / "queue.pid"
    with hold_pidfile(file):
        file.rename(tmp_path / "moved")
        file.symlink_to(tmp_path / "moved")
    assert file.is_symlink()
    assert (tmp_path / "moved").read_text() == MINE


def refusal(file: Path, why: str) -> str:
    return f"the pidfile {file} {why}.*, and is left as it is; remove it, or name another path in steady_queue"


@pytest.mark.anyio
@pytest.mark.only_on("sqlite")
async def test_the_command_does_not_start_with_a_link_for_a_pidfile(database: str, tmp_path: Path) -> None:
    target, file = tmp_path / "target", tmp_path / "queue.pid"
    target.write_text("precious")
    file.symlink_to(target)
    with command(database, "--async", setup=setting(file)) as process:
        printed = await read_output(process, code=1)
    assert f"CommandError: the pidfile {file} is a symbolic link" in printed
    assert target.read_text() == "precious"


def test_a_pidfile_that_another_process_has_replaced_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "queue.pid"
    with hold_pidfile(str(file)):
        file.rename(tmp_path / "moved")
        file.write_text("somebody else's")
    assert file.read_text() == "somebody else's"


HOLDER = """
import os, sys, time
from steady_queue.aio.command.pidfile import hold_pidfile
from steady_queue.errors import ConfigurationError
sys.stdin.readline()
for _ in range(200):
    try:
        with hold_pidfile(sys.argv[1]):
            with open(sys.argv[2], "x"):
                pass
            time.sleep(0.0005)
            os.unlink(sys.argv[2])
    except ConfigurationError:
        pass
"""


def test_many_processes_hold_it_one_at_a_time(tmp_path: Path) -> None:
    def come_and_go() -> None:
        arguments = [sys.executable, "-c", HOLDER, str(tmp_path / "queue.pid"), str(tmp_path / "held")]
        subprocess.run(arguments, input="\n", cwd=REPOSITORY, text=True, check=True, timeout=25)

    together(*[come_and_go] * 3)
    assert list(tmp_path.iterdir()) == []
