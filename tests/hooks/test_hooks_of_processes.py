"""Hooks, signals and events of real processes: a supervisor, its children, and one loop with other processes."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.hooks.call_log import KEEP_CALL_LOG, read
from tests.shop import tasks
from tests.support.databases.tables import count
from tests.support.processes.commands import command, stop_command, wait_for_output
from tests.support.processes.process_rows import pids, wait_for_worker
from tests.support.processes.projects import Project, program
from tests.support.runtime import in_thread, until

if TYPE_CHECKING:
    from pathlib import Path

#: Starting processes takes most of the time of these tests, and the database matters little to what they show.
pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres")]

CHILDREN = ("worker", "dispatcher", "scheduler")
MOMENTS = ("on_start", "on_stop", "on_exit")
HANGS = """
import asyncio, threading
from steady_queue import hooks

def sync(actor):
    threading.Event().wait()

async def stubborn(actor):
    while True:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            pass

for moments in hooks.by_kind.values():
    for moment in (moments.on_stop, moments.on_exit):
        moment({hook})
"""


def whats(path: Path) -> Counter[str]:
    return Counter(one["what"] for one in read(path))


async def wait_for_calls(path: Path, **wanted: int) -> None:
    """Wait until each has been called so often."""
    names = {name.replace("__", "."): number for name, number in wanted.items()}
    await until(lambda: all(whats(path)[name] >= number for name, number in names.items()), f"{names} in vain")


async def test_each_kind_has_its_hooks_and_signals_once_in_its_own_process(database: str, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with command(database, shutdown_timeout_seconds=20, setup=KEEP_CALL_LOG.format(path=str(path))) as process:
        await wait_for_calls(
            path, supervisor__on_start=1, worker__on_start=1, dispatcher__on_start=1, scheduler__on_start=1
        )
        (worker,), (dispatcher,) = await pids(database, "worker"), await pids(database, "dispatcher")
        await wait_for_calls(path, process_started=4)
        assert not {what for what in whats(path) if "stop" in what or "exit" in what}
        await stop_command(process)
    found = read(path)
    of = {"supervisor": process.pid, "worker": worker, "dispatcher": dispatcher, "scheduler": dispatcher}
    for kind, pid in of.items():
        mine = [one for one in found if one.get("kind") == kind and "." in one["what"]]
        assert [one["what"] for one in mine] == [f"{kind}.{moment}" for moment in MOMENTS]
        assert {(one["pid"], one["by"]) for one in mine} == {(pid, pid)}
        signals = [one for one in found if one.get("process_kind") == kind]
        assert [(one["what"], one["pid"], one["by"]) for one in signals] == [
            ("process_started", pid, pid),
            ("process_stopped", pid, pid),
        ]
        assert {one["sender"] for one in signals} == {"ProcessLifecycle"}
        assert signals[1]["error"] is None
    (queues,) = [one["queues"] for one in found if one["what"] == "worker.on_start"]
    assert queues == ["*"]
    reported = whats(path)
    once = ("SupervisorStarted", "SupervisorStopped", "ChildrenStopping")
    assert [reported[name] for name in once] == [1, 1, 1]
    assert [reported[name] for name in ("ChildStarted", "ChildExited", "ProcessStarted", "ProcessStopped")] == [2] * 4
    assert [reported[name] for name in ("ProcessRegistered", "ProcessDeregistered")] == [3, 3]
    (stopping,) = read(path, "ChildrenStopping")
    assert (stopping["supervisor_pid"], sorted(stopping["pids"])) == (process.pid, sorted([worker, dispatcher]))
    assert not reported["ChildrenQuitting"]
    assert await in_thread(count, database, "process") == 0


async def test_the_start_hooks_of_a_supervisor_are_called_when_it_is_registered(database: str, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    setup = "import steady_queue.aio.supervisor.supervisor as s; s.REGISTER_SECONDS = 60\n" + KEEP_CALL_LOG.format(
        path=str(path)
    )
    with command(database, "--only-work", shutdown_timeout_seconds=5, setup=setup) as process:
        await wait_for_calls(path, supervisor__on_start=1, worker__on_start=1, ProcessRegistered=2)
        await stop_command(process)
    names = ("supervisor.on_start", "ProcessRegistered")
    mine = [one["what"] for one in read(path) if one["by"] == process.pid and one["what"] in names]
    assert mine == ["ProcessRegistered", "supervisor.on_start"]


@pytest.mark.parametrize("shutdown_timeout_seconds", [0, 20])
async def test_a_child_that_is_killed_and_replaced_is_reported_by_the_supervisor(
    database: str, tmp_path: Path, shutdown_timeout_seconds: int
) -> None:
    path = tmp_path / "notes"
    with command(
        database,
        "--only-work",
        shutdown_timeout_seconds=shutdown_timeout_seconds,
        setup=KEEP_CALL_LOG.format(path=str(path)),
    ) as process:
        first = await wait_for_worker(database)
        await wait_for_calls(path, worker__on_start=1)
        os.kill(first, signal.SIGKILL)
        second = await wait_for_worker(database, other_than=first)
        await wait_for_calls(path, process_restarted=1, worker__on_start=2)
        await stop_command(process)
    (restarted,) = read(path, "process_restarted")
    assert (restarted["process_kind"], restarted["pid"], restarted["by"]) == ("worker", first, process.pid)
    assert (restarted["exitcode"], restarted["replacement_pid"]) == (-signal.SIGKILL, second)
    assert restarted["supervisor_pid"] == process.pid
    assert restarted["metadata"]["queues"] == "*"
    assert f":{first}:" in restarted["process_name"]
    (replaced,) = read(path, "ChildReplaced")
    assert (replaced["supervisor_pid"], replaced["pid"], replaced["status"]) == (process.pid, first, -signal.SIGKILL)
    assert replaced["replacement_pid"] == second
    assert [one["pid"] for one in read(path, "worker.on_exit")] == [second]


async def test_in_one_loop_each_actor_is_reported_once_and_another_process_reports_its_own(
    database: str, tmp_path: Path
) -> None:
    path = tmp_path / "notes"
    with command(
        database, "--async", "--processes", "2", shutdown_timeout_seconds=20, setup=KEEP_CALL_LOG.format(path=str(path))
    ) as process:
        await wait_for_calls(
            path, supervisor__on_start=1, worker__on_start=2, dispatcher__on_start=1, scheduler__on_start=1
        )
        await stop_command(process)
    here = [one["what"] for one in read(path) if one["by"] == process.pid and "." in one["what"]]
    kinds = ("supervisor", *CHILDREN)
    assert Counter(here) == Counter(f"{kind}.{moment}" for kind in kinds for moment in MOMENTS)
    there = [one["what"] for one in read(path) if one["by"] != process.pid and "." in one["what"]]
    assert there == [f"worker.{moment}" for moment in MOMENTS]


APPS = """
from django.apps import AppConfig

class Garage(AppConfig):
    name = "garage"

    def ready(self):
        from steady_queue import hooks

        @hooks.supervisor.on_start
        async def begin(supervisor):
            print("hook in ready:", supervisor.kind, supervisor.metadata["processes"], flush=True)

        @hooks.on_error
        def report(error, origin):
            print("error:", error, "in", origin, flush=True)
"""
TASKS = """
from steady_queue import events, hooks, task

@hooks.worker.on_start
def warm(worker):
    print("hook in tasks:", worker.kind, flush=True)

@hooks.supervisor.on_start
def never(supervisor):
    print("a supervisor imports tasks", flush=True)

@hooks.worker.on_exit
def fail(worker):
    raise LookupError("on purpose")

@events.subscribe(only=[events.JobsClaimed])
def claimed(event):
    print("subscriber in tasks:", event.count, flush=True)

@task
async def wash():
    print("washed", flush=True)
"""


async def test_hooks_in_an_apps_ready_and_in_its_tasks_are_found(database: str, tmp_path: Path) -> None:
    project = Project(tmp_path, database)
    (project.app / "apps.py").write_text(APPS)
    (project.app / "tasks.py").write_text(TASKS)
    with program("manage.py", "steady_queue", "--only-work", cwd=tmp_path) as process:
        await wait_for_output(process, "hook in ready: supervisor 1")
        await wait_for_output(process, "hook in tasks: worker")
        await project.enqueue("wash")
        await wait_for_output(process, "subscriber in tasks: 1")
        printed = await stop_command(process)
    assert "a supervisor imports tasks" not in printed
    assert "error: on purpose in the worker.on_exit hook fail" in printed


@pytest.mark.parametrize("hook", ["sync", "stubborn"])
@pytest.mark.parametrize(
    "arguments",
    [(), ("--async",), ("--async", "--processes", "2")],
    ids=["supervised", "in one loop", "in one loop with a copy"],
)
async def test_hooks_that_never_return_do_not_prevent_a_stop(
    database: str, arguments: tuple[str, ...], hook: str
) -> None:
    with command(database, *arguments, setup=HANGS.format(hook=hook)) as process:
        await wait_for_output(process, "started on")
        printed = await stop_command(process)
    assert "on_exit hook" in printed
    assert await in_thread(count, database, "process") == 0


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
async def test_a_signal_without_a_meaning_is_reported_and_ends_no_process(
    database: str, tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "notes"
    with command(
        database, "--only-work", shutdown_timeout_seconds=20, setup=KEEP_CALL_LOG.format(path=str(path))
    ) as process:
        worker = await wait_for_worker(database)
        await wait_for_calls(path, worker__on_start=1, supervisor__on_start=1)
        for pid in (worker, process.pid):
            os.kill(pid, number)
        await wait_for_calls(path, UnhandledSignal=2)
        await stop_command(process)
    assert {(one["by"], one["signal"]) for one in read(path, "UnhandledSignal")} == {
        (worker, number.name),
        (process.pid, number.name),
    }
    assert not read(path, "ChildDied")


async def test_a_signal_that_the_project_handles_in_c_is_left_to_it(database: str) -> None:
    setup = "import faulthandler, signal; faulthandler.register(signal.SIGUSR1)"
    with command(database, "--async", setup=setup) as process:
        await wait_for_output(process, "started on")
        process.send_signal(signal.SIGUSR1)
        await wait_for_output(process, "most recent call first")
        printed = await stop_command(process)
    assert "USR1" not in printed


#: It leaves a thread for which the interpreter would wait.
ERROR_HANGS = """
import threading
from concurrent.futures import ThreadPoolExecutor
from steady_queue import hooks

@hooks.on_error
def hangs(error, origin):
    print("error hook called", flush=True)
    ThreadPoolExecutor(1).submit(threading.Event().wait).result()

def bad(actor):
    raise LookupError("on purpose")

for moments in hooks.by_kind.values():
    moments.on_start(bad)
"""


@pytest.mark.parametrize("arguments", [("--only-work",), ("--async",)], ids=["supervised", "in one loop"])
async def test_an_error_hook_that_never_returns_does_not_prevent_a_stop(
    database: str, arguments: tuple[str, ...]
) -> None:
    with command(database, *arguments, setup=ERROR_HANGS) as process:
        await wait_for_output(process, "error hook called", "started on")
        await stop_command(process)
    assert await in_thread(count, database, "process") == 0


async def test_children_that_are_signalled_to_stop_at_once_are_reported(database: str, tmp_path: Path) -> None:
    path, gate = tmp_path / "notes", tmp_path / "gate"
    with command(
        database, "--only-work", shutdown_timeout_seconds=20, setup=KEEP_CALL_LOG.format(path=str(path))
    ) as process:
        await tasks.blocks_until_file.aenqueue(str(gate))
        await wait_for_output(process, "began")
        await stop_command(process, signal.SIGQUIT)
    gate.touch()
    (reported,) = read(path, "ChildrenQuitting")
    assert (reported["supervisor_pid"], len(reported["pids"]), reported["timed_out"]) == (process.pid, 1, False)
    assert len(read(path, "ProcessQuitting")) == 1


async def test_children_that_exceed_the_shutdown_timeout_are_reported_as_late(database: str, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with command(
        database, "--only-work", shutdown_timeout_seconds=0, setup=KEEP_CALL_LOG.format(path=str(path))
    ) as process:
        worker = await wait_for_worker(database)
        await wait_for_calls(path, worker__on_start=1)
        os.kill(worker, signal.SIGSTOP)
        await stop_command(process)
    (reported,) = read(path, "ChildrenQuitting")
    assert (reported["pids"], reported["count"], reported["timed_out"]) == ([worker], 1, True)
