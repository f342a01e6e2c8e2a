"""Hooks of a process that stops: on_stop, on_exit, hooks that never return, immediate shutdown."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

import steady_queue
from steady_queue import hooks
from steady_queue.aio import running
from steady_queue.aio.process.heartbeat import Heartbeat
from steady_queue.events import ProcessRegisteredAgain, ProcessStopped, RuntimeFault
from tests.hooks.helpers import KINDS, record_hook_calls
from tests.support.databases.tables import count
from tests.support.runtime import EmittedEvents, in_thread, until, values, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

pytestmark = pytest.mark.anyio


async def test_stop_hooks_are_called_while_tasks_run_and_exit_hooks_when_all_is_written(database: str) -> None:
    seen: list[tuple[str, Any]] = []

    @hooks.worker.on_stop
    def finish(actor: hooks.Actor) -> None:
        seen.append(("stop", sum(task_record.running.values())))
        task_record.gate.set()

    @hooks.worker.on_exit
    def over(actor: hooks.Actor) -> None:
        seen.append(
            (
                "exit",
                (sum(task_record.running.values()), count(database, "process"), count(database, "claimedexecution")),
            )
        )

    async with running(worker()):
        result = await recording.awaits.aenqueue("long")
        await until(lambda: task_record.began == ["long"])
    assert seen == [("stop", 1), ("exit", (0, 0, 0))]
    assert await values(result) == ["long"]


async def test_during_slow_exit_hooks_the_process_does_not_register_again(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.01))
    beat, beats = Heartbeat._beat, 0

    async def counted(self: Heartbeat) -> bool:
        nonlocal beats
        beats += 1
        return await beat(self)

    monkeypatch.setattr(Heartbeat, "_beat", counted)

    @hooks.worker.on_exit
    async def slow(actor: hooks.Actor) -> None:
        later = beats + 3
        await until(lambda: beats >= later)

    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        pass
    assert not emitted.of(ProcessRegisteredAgain)
    assert not emitted.of(RuntimeFault)
    assert await in_thread(count, database, "process") == 0


@pytest.mark.parametrize("moment", ["on_start", "on_stop", "on_exit"])
@pytest.mark.parametrize("way", ["sync", "async", "stubborn"])
async def test_a_hook_that_never_returns_does_not_prevent_a_stop(
    database: str, moment: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=0.2))
    monkeypatch.setattr("steady_queue.aio.process.deadlines.EXIT_HOOKS_SECONDS", 0.2)
    begun, go_on = threading.Event(), threading.Event()

    def sync(actor: hooks.Actor) -> None:
        begun.set()
        go_on.wait()

    async def waits(actor: hooks.Actor) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def stubborn(actor: hooks.Actor) -> None:
        begun.set()
        while not go_on.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    hook = {"sync": sync, "async": waits, "stubborn": stubborn}[way]
    getattr(hooks.worker, moment)(hook)
    emitted = EmittedEvents()
    process = steady_queue.aio.embedding.prepare(worker(), events=emitted)
    running_ = asyncio.create_task(process.run())
    await until((begun if moment == "on_start" else process.ready).is_set)
    process.stop()
    await asyncio.wait([running_])
    await running_
    go_on.set()
    assert begun.is_set()
    assert len(emitted.of(ProcessStopped)) == 1
    assert await in_thread(count, database, "process") == 0
    if moment != "on_start":
        (fault,) = emitted.of(RuntimeFault)
        assert isinstance(fault.exception, TimeoutError)
        assert f"worker.{moment}" in fault.where


async def test_a_quit_does_not_wait_for_hooks(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(hours=1))
    begun, go_on = threading.Event(), threading.Event()

    @hooks.worker.on_stop
    def hangs(actor: hooks.Actor) -> None:
        begun.set()
        go_on.wait()

    hooks.worker.on_exit(hangs)
    async with running(worker()) as process:
        process.stop()
        await until(begun.is_set)
        process.quit()
    go_on.set()


@pytest.mark.parametrize("seconds", [0, 3600])
async def test_after_a_quit_quick_stop_hooks_are_called_with_any_shutdown_timeout(
    database: str, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=seconds))
    monkeypatch.setattr("steady_queue.aio.process.deadlines.STOP_HOOKS_SECONDS", 30.0)  # enough on a busy machine
    monkeypatch.setattr("steady_queue.aio.process.deadlines.EXIT_HOOKS_NOW_SECONDS", 30.0)
    calls = record_hook_calls("on_stop", "on_exit")
    async with running(worker()) as process:
        process.quit()
    assert [what for what, _ in calls] == [f"{kind}.{moment}" for moment in ("on_stop", "on_exit") for kind in KINDS]


@pytest.mark.parametrize("moment", ["on_stop", "on_exit"])
async def test_a_quit_while_one_hook_runs_counts_for_the_next_as_well(
    database: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(hours=1))
    monkeypatch.setattr("steady_queue.aio.process.deadlines.EXIT_HOOKS_SECONDS", 3600)
    monkeypatch.setattr("steady_queue.aio.process.deadlines.FLUSH_NOW_SECONDS", 30.0)  # enough on a busy machine
    begun, quitting = asyncio.Event(), asyncio.Event()

    @getattr(hooks.worker, moment)  # type: ignore[untyped-decorator]
    async def first(actor: hooks.Actor) -> None:
        begun.set()
        await quitting.wait()

    @getattr(hooks.worker, moment)  # type: ignore[untyped-decorator]
    async def second(actor: hooks.Actor) -> None:
        await asyncio.Event().wait()

    emitted = EmittedEvents()
    process = steady_queue.aio.embedding.prepare(worker(), events=emitted)
    runs = asyncio.create_task(process.run())
    await until(process.ready.is_set)
    process.stop()
    await begun.wait()
    process.quit()
    quitting.set()
    await runs
    assert [type(fault.exception) for fault in emitted.of(RuntimeFault)] == [TimeoutError]
