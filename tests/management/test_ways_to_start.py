"""The ways to start the command: with each of them its processes start, work and stop."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from steady_queue.aio.supervisor import child
from steady_queue.aio.supervisor.child import new_orders
from steady_queue.configuration import Options, Worker
from tests.shop.tasks import add
from tests.support.databases.aliases import queue_in
from tests.support.databases.tables import count, counts
from tests.support.processes.commands import stop_command, wait_for_output
from tests.support.processes.projects import Project, program
from tests.support.processes.scripts import REPOSITORY, run_script
from tests.support.runtime import WAIT_TIMEOUT_SECONDS, in_thread, values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


@pytest.fixture
def default() -> Iterator[str]:
    """The queue is in the database that is the default without any setting."""
    with queue_in("default"):
        yield "default"


async def test_it_starts_with_python_m_django(default: str) -> None:
    words = ("-m", "django", "steady_queue", "--settings", "tests.settings", "--only-work")
    with program(*words) as process:
        assert await values(await add.aenqueue(1)) == [1]
        printed = await stop_command(process)
    assert "died" not in printed
    assert await in_thread(count, default, "process") == 0


async def test_it_starts_by_a_relative_path_from_another_directory(database: str, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "other").mkdir()
    project = Project(tmp_path / "code", database)
    words = ("../code/manage.py", "steady_queue", "--only-work")
    with program(*words, cwd=tmp_path / "other") as process:
        await project.enqueue("wash")
        await wait_for_output(process, "washed by version 1")
        assert "died" not in await stop_command(process)


async def test_it_starts_by_a_manage_py_that_builds_its_own_arguments(database: str, tmp_path: Path) -> None:
    project = Project(tmp_path, database, argv="['me', 'steady_queue', '--queues', 'default', '--only-work']")
    with program("manage.py", "nothing", "--of", "this", cwd=tmp_path) as process:
        await wait_for_output(process, "worker      default: ")
        await project.enqueue("wash")
        await wait_for_output(process, "washed by version 1")
        assert "died" not in await stop_command(process)


async def test_code_may_call_it_and_goes_on_when_it_has_returned(database: str) -> None:
    results = [await add.aenqueue(number) for number in range(3)]
    printed = await in_thread(run_script_on, database, CALLS)
    assert printed.splitlines() == ["drained", "drained in a thread", "stopped by a signal", "as before"]
    assert await values(*results) == [0, 1, 2]
    assert await in_thread(count, database, "process") == 0


CALLS = """
import os, signal, threading
from django.core.management import call_command

watched = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
signal.signal(signal.SIGTERM, lambda *_: print("mine"))
before = [signal.getsignal(number) for number in watched]

call_command("steady_queue", "--async", "--drain", verbosity=0)
print("drained")

thread = threading.Thread(target=call_command, args=("steady_queue", "--async", "--drain"), kwargs={"verbosity": 0})
thread.start()
thread.join()
print("drained in a thread")

def stop():
    # A signal means the command only when it has handlers of its own.
    while signal.getsignal(signal.SIGTERM) is before[0]:
        pass
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=stop).start()
call_command("steady_queue", "--async", verbosity=0)
print("stopped by a signal")

assert [signal.getsignal(number) for number in watched] == before
print("as before")
"""


def run_script_on(alias: str, text: str) -> str:
    return run_script(text, alias=alias)


async def test_signals_that_its_parent_ignores_do_not_stop_it_but_quit_does(database: str, tmp_path: Path) -> None:
    """As with nohup, and with a background job of a script."""
    project = Project(tmp_path, database)
    with program("-c", IGNORES, "manage.py", "steady_queue", "--only-work", cwd=tmp_path) as process:
        await project.enqueue("wash")
        await wait_for_output(process, "washed by version 1")
        for number in (signal.SIGHUP, signal.SIGINT):
            process.send_signal(number)
        await project.enqueue("repair")
        await wait_for_output(process, "began")
        printed = await stop_command(process, signal.SIGQUIT)
    assert "ended: it exited with status 0" in printed  # not killed: it has stopped as well
    assert await in_thread(counts, database) == {"ready": 1}


IGNORES = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize("words", [["manage.py"], ["-m", "django"]], ids=["manage.py", "python -m django"])
async def test_settings_may_change_the_directory_and_the_path(database: str, tmp_path: Path, words: list[str]) -> None:
    project = Project(tmp_path, database)
    with (project.app / "settings.py").open("a") as settings:
        settings.write(f"\nimport os, sys\nsys.path.insert(0, {str(project.app)!r})\nos.chdir('/')\n")
    environ = {"DJANGO_SETTINGS_MODULE": "garage.settings"}
    with program(*words, "steady_queue", "--only-work", cwd=tmp_path, environ=environ) as process:
        await project.enqueue("wash")
        await wait_for_output(process, "washed by version 1")
        assert "died" not in await stop_command(process)


async def test_a_process_accepts_orders_larger_than_an_environment_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queues = [f"{number:0200}" for number in range(1000)]
    given = new_orders(Options(workers=[Worker(queues=queues)]), supervisor_id=uuid4(), report_seconds=1.0)
    obeys = [sys.executable, "-c", f"{TAKES}raise SystemExit(taken != {len(queues)})"]
    monkeypatch.setattr(child, "command_line", lambda: obeys)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    if hasattr(os, "memfd_create"):  # a container may have no directory to write to
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    started = child.Child.start(given, 0.0)
    status = await in_thread(started.popen.wait, WAIT_TIMEOUT_SECONDS)
    assert started.close(status).summary == "exited with status 0"


TAKES = """
import os
from steady_queue.aio.supervisor.child import read_orders
taken = len(read_orders(os.environ).options.workers[0].queues)
"""


@pytest.mark.parametrize("words", [[], ["--async"], ["check"]], ids=["supervised", "in one loop", "check"])
async def test_nothing_needs_an_open_output(database: str, words: list[str]) -> None:
    """As with a daemon that closes its unused descriptors."""
    result = await add.aenqueue(1)
    code = (
        "import os, sys\nos.close(1); os.close(2)\n"
        f"os.execv(sys.executable, [sys.executable, '-c', {ON.format(alias=database)!r}, *{[*words, '--drain']!r}])"
    )
    with program("-c", code) as process:
        await in_thread(process.wait, WAIT_TIMEOUT_SECONDS)
    assert process.returncode == 0
    if "check" not in words:
        assert await values(result) == [1]


ON = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import steady_queue
steady_queue.database = {alias!r}
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "steady_queue", *sys.argv[1:]])
"""
