"""`steady_queue check` and `steady_queue health` as scripts and containers run them, and what refuses to start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from steady_queue.management.commands.steady_queue import Command as SteadyQueue
from tests.shop.tasks import add
from tests.support.databases.refuse_changes import refusing
from tests.support.databases.tables import count, query
from tests.support.processes.commands import MANAGE, command, read_output, stop_command, wait_for_output
from tests.support.processes.process_rows import wait_for_worker
from tests.support.processes.scripts import REPOSITORY
from tests.support.runtime import in_thread, until, values
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


def run(alias: str, *arguments: str, setup: str = "") -> tuple[int, str, str]:
    """The exit status, what went to stdout, and what to stderr."""
    text = MANAGE.format(alias=alias, alive=20, shutdown_timeout_seconds=1, setup=setup)
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=25,
    )
    return done.returncode, done.stdout, done.stderr


def health(*arguments: str) -> tuple[int, str]:
    """The same for the health check of this database, in this process: that is quicker."""
    out = StringIO()
    try:
        call_command("steady_queue", "health", *arguments, stdout=out)
    except SystemExit as exit_:
        return int(str(exit_.code)), out.getvalue()
    return 0, out.getvalue()


async def test_health_is_bad_before_good_during_and_bad_after_a_run(database: str, tmp_path: Path) -> None:
    none = (1, "no process of Steady Queue is registered on this machine\n")
    assert await in_thread(health) == none
    broken = tmp_path / "broken"
    breaks = f"import os\nif 'STEADY_QUEUE_CHILD' in os.environ and os.path.exists({str(broken)!r}): os._exit(3)"
    with command(database, "--only-work", alive=10, setup=breaks) as process:
        assert await values(await add.aenqueue(1)) == [1]

        async def healthy() -> bool:
            return (await in_thread(health))[0] == 0

        await until(healthy, "it never is healthy")
        status, out, err = await in_thread(run, database, "health")
        assert (status, err) == (0, "")
        assert out.count("polled ") == out.count("\n") == 1
        status, out = await in_thread(health, "--max-age", "-1")
        assert status == 1
        assert "longer than" in out

        broken.touch()
        os.kill(await wait_for_worker(database), signal.SIGKILL)
        await wait_for_output(process, "died: it exited with status 3")
        status, out = await in_thread(health)
        assert status == 1
        assert out.endswith(": 1 of its 1 processes are missing\n")
        broken.unlink()
        await until(healthy, "it never is healthy again")
        await stop_command(process)
    assert await in_thread(run, database, "health") == (*none, "")


async def test_health_shows_from_another_process_what_maintenance_cannot_do(database: str) -> None:
    old = job()

    def prepare() -> None:
        SyncStore(database).enqueue(old)
        query(database, "DELETE FROM steady_queue_readyexecution")
        query(database, "UPDATE steady_queue_job SET finished_at = '2020-01-01 00:00:00.000000'")

    await in_thread(prepare)
    async with refusing(database, "DELETE", "job", old.id):
        with command(database, "--only-work", alive=10) as process:
            await wait_for_output(process, "maintenance: clearing finished tasks failed (1 in succession); ")
            status, out, err = await in_thread(run, database, "health")
            assert (status, err) == (0, "")
            assert ": maintenance: clearing finished tasks has failed " in out
            assert "refused by a test" in out
            printed = await stop_command(process)
    assert "is unavailable" not in printed


def test_a_bad_age_is_refused() -> None:
    for age in ("old", "nan", "inf", ""):
        with pytest.raises(CommandError, match=f"--max-age must be a number of seconds, not '{age}'"):
            call_command("steady_queue", "health", f"--max-age={age}")


async def test_a_check_reports_success_and_starts_nothing(database: str) -> None:
    status, out, err = await in_thread(run, database, "check", "--queues", "mail", "--async")
    assert (status, err) == (0, "")
    assert out.startswith("Steady Queue ")
    assert out.endswith(": no errors\n")
    assert await in_thread(count, database, "process") == 0


async def test_a_check_reports_every_problem_and_fails(database: str) -> None:
    no_such_app = "import tests.settings; tests.settings.TASKS = {'default': {'BACKEND': 'no.such.Backend'}}"
    status, out, err = await in_thread(
        lambda: run(database, "check", "--threads=x", "--max-tasks=0", setup=no_such_app)
    )
    assert (status, out) == (1, "")
    assert all(line.startswith("error: ") for line in err.splitlines())
    for words in ("--threads must be an integer, not 'x'", "max_tasks must be", "no.such"):
        assert words in err


@pytest.mark.parametrize(
    "arguments", [[], ["--async"], ["--async", "--processes", "2"]], ids=["supervisor", "async", "async and another"]
)
async def test_a_database_that_was_not_migrated_is_refused_at_once(
    database: str, tmp_path: Path, arguments: list[str]
) -> None:
    file = str(tmp_path / "fresh.sqlite3")
    fresh = f"import tests.settings; tests.settings.DATABASES['sqlite']['NAME'] = {file!r}"
    with command(database, *arguments, setup=fresh) as process:
        printed = await read_output(process, code=1)
    assert "CommandError: " in printed
    assert "lacks migrations of steady_queue: 0001_initial" in printed
    assert "started" not in printed
    assert "Traceback" not in printed


def test_a_mistyped_action_is_refused_with_the_list_of_actions(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as exit_:
        parser = SteadyQueue().create_parser("manage.py", "steady_queue")
        parser.called_from_command_line = True
        parser.parse_args(["chek"])
    assert exit_.value.code == 2
    assert "invalid choice: 'chek' (choose from" in capsys.readouterr().err
