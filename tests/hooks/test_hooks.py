"""Lifecycle hooks, in one process: when they are called, with what, and what they cannot do to it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from datetime import timedelta
from typing import Any

import pytest

import steady_queue
from steady_queue import hooks
from steady_queue.aio import running
from steady_queue.aio.process.heartbeat import Heartbeat
from steady_queue.asgi import SteadyQueue
from steady_queue.configuration import Dispatcher, Options, Worker
from steady_queue.events import JobsClaimed, ProcessRegisteredAgain, ProcessStarted, ProcessStopped, RuntimeFault
from tests.shop.models import Customer
from tests.support.databases.tables import count
from tests.support.runtime import Heard, aside, until, values, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import book

pytestmark = pytest.mark.anyio

KINDS = ["worker", "dispatcher", "scheduler"]


def noted(*names: str) -> list[tuple[str, hooks.Actor]]:
    """What hooks of these kinds and moments are told, and when."""
    told: list[tuple[str, hooks.Actor]] = []
    for kind in KINDS:
        for name in names:
            moment = getattr(hooks.by_kind[kind], name)  # type: ignore[index]
            moment(lambda actor, what=moment.name: told.append((what, actor)))
    return told


async def test_each_actor_has_its_three_moments_once_and_is_described(database: str) -> None:
    told = noted("on_start", "on_stop", "on_exit")
    options = Options(workers=[Worker(queues=["mail", "default"], threads=4)], dispatchers=[Dispatcher(batch_size=7)])
    async with running(options) as process:
        assert [what for what, _ in told] == [f"{kind}.on_start" for kind in KINDS]
    assert [what for what, _ in told] == [f"{kind}.{m}" for m in ("on_start", "on_stop", "on_exit") for kind in KINDS]
    first, dispatcher, scheduler = (actor for _, actor in told[:3])
    assert (first.kind, first.name, first.process_id) == ("worker", process.name, process.id)
    assert (first.pid, first.hostname, first.supervisor_id) == (os.getpid(), socket.gethostname(), None)
    assert first.queues == ("mail", "default")
    assert (first.metadata["threads"], dispatcher.metadata["batch_size"], dict(scheduler.metadata)) == (4, 7, {})
    with pytest.raises(AttributeError):
        first.kind = "scheduler"  # type: ignore[misc]


async def test_two_workers_of_one_process_start_with_a_call_each(database: str) -> None:
    told = noted("on_start")
    options = Options(workers=[Worker(queues=["a"]), Worker(queues=["b"])], only_work=True)
    async with running(options):
        pass
    assert [actor.queues for _, actor in told] == [("a",), ("b",)]


async def test_nothing_is_claimed_before_the_start_hooks_have_returned_and_the_loop_goes_on(database: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @hooks.worker.on_start
    def warm(actor: hooks.Actor) -> None:
        begun.set()
        go_on.wait()

    result = await recording.rests.aenqueue("warm")
    heard = Heard()
    async with asyncio.TaskGroup() as group:
        ended = asyncio.Event()

        async def run() -> None:
            async with running(worker(), events=heard):
                await ended.wait()

        group.create_task(run())
        await until(begun.is_set)
        assert await aside(count, database, "process") == 1
        assert not heard.of(JobsClaimed)
        assert not heard.of(ProcessStarted)
        assert book.began == []
        go_on.set()
        assert await values(result) == ["warm"]
        ended.set()


async def test_async_hooks_run_in_the_loop_and_sync_ones_in_a_thread_in_their_order(database: str) -> None:
    order: list[tuple[str, bool]] = []
    here = threading.get_ident()

    class Warm:
        async def __call__(self, actor: hooks.Actor) -> None:
            order.append(("third", threading.get_ident() == here))

    @hooks.worker.on_start
    async def first(actor: hooks.Actor) -> None:
        await asyncio.sleep(0)
        order.append(("first", threading.get_ident() == here))

    @hooks.worker.on_start
    def second(actor: hooks.Actor) -> None:
        order.append(("second", threading.get_ident() == here))

    hooks.worker.on_start(Warm())
    hooks.worker.on_start(first)
    async with running(worker()):
        pass
    assert order == [("first", True), ("second", False), ("third", True)]


async def test_hooks_use_the_database_and_leave_no_connection_open(database: str) -> None:
    found: list[int] = []

    @hooks.worker.on_start
    def make(actor: hooks.Actor) -> None:
        Customer.objects.using(database).create(name="Ada")

    @hooks.worker.on_stop
    async def find(actor: hooks.Actor) -> None:
        found.append(await Customer.objects.using(database).acount())

    async with running(worker()):
        pass
    assert found == [1]
    await until(lambda: not any("steady-queue-orm" in thread.name for thread in threading.enumerate()))


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("moment", ["on_start", "on_stop", "on_exit"])
async def test_a_hook_that_raises_is_reported_and_the_others_are_called(
    database: str, moment: str, error: type[BaseException]
) -> None:
    def bad(actor: hooks.Actor) -> None:
        raise error("on purpose")

    async def as_bad(actor: hooks.Actor) -> None:
        raise error("on purpose")

    for hook in (bad, as_bad):
        getattr(hooks.worker, moment)(hook)

    told = noted(moment)
    heard = Heard()
    async with running(worker(), events=heard):
        assert await values(await recording.rests.aenqueue("fine")) == ["fine"]
    assert len(told) == 3
    faults = heard.of(RuntimeFault)
    assert [type(fault.exception) for fault in faults] == [error, error]
    assert all(f"worker.{moment}" in fault.where and "bad" in fault.where for fault in faults)
    assert len(heard.of(ProcessStopped)) == 1


@pytest.mark.parametrize("moment", ["on_start", "on_stop", "on_exit"])
async def test_a_sync_hook_that_lets_a_stop_iteration_out_is_reported(database: str, moment: str) -> None:
    @getattr(hooks.worker, moment)  # type: ignore[untyped-decorator]
    def bad(actor: hooks.Actor) -> None:
        next(iter(()))

    told = noted(moment)
    heard = Heard()
    async with running(worker(), events=heard):
        pass
    (fault,) = heard.of(RuntimeFault)
    assert isinstance(fault.exception, StopIteration)
    assert len(told) == 3


@pytest.mark.parametrize("moment", ["on_start", "on_stop", "on_exit"])
async def test_an_async_hook_that_cancels_its_own_task_is_reported_and_the_others_are_called(
    database: str, moment: str
) -> None:
    @getattr(hooks.worker, moment)  # type: ignore[untyped-decorator]
    async def bad(actor: hooks.Actor) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    told = noted(moment)
    heard = Heard()
    async with running(worker(), events=heard):
        assert await values(await recording.rests.aenqueue("fine")) == ["fine"]
    (fault,) = heard.of(RuntimeFault)
    assert "cancelled its own task" in str(fault.exception)
    assert len(told) == 3


async def test_a_hook_that_cannot_be_shown_is_called_and_reported(database: str) -> None:
    class Shy:
        def __call__(self, actor: hooks.Actor) -> None:
            raise LookupError("on purpose")

        def __repr__(self) -> str:
            raise LookupError("no name")

    hooks.worker.on_start(Shy())
    heard = Heard()
    async with running(worker(), events=heard):
        pass
    (fault,) = heard.of(RuntimeFault)
    assert "Shy that cannot be shown" in fault.where


async def test_stop_hooks_are_called_while_tasks_run_and_exit_hooks_when_all_is_written(database: str) -> None:
    seen: list[tuple[str, Any]] = []

    @hooks.worker.on_stop
    def finish(actor: hooks.Actor) -> None:
        seen.append(("stop", sum(book.now.values())))
        book.gate.set()

    @hooks.worker.on_exit
    def over(actor: hooks.Actor) -> None:
        seen.append(("exit", (sum(book.now.values()), count(database, "process"), count(database, "claimedexecution"))))

    async with running(worker()):
        result = await recording.awaits.aenqueue("long")
        await until(lambda: book.began == ["long"])
    assert seen == [("stop", 1), ("exit", (0, 0, 0))]
    assert await values(result) == ["long"]


async def test_while_exit_hooks_take_their_time_the_process_does_not_register_again(
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

    heard = Heard()
    async with running(worker(), events=heard):
        pass
    assert not heard.of(ProcessRegisteredAgain)
    assert not heard.of(RuntimeFault)
    assert await aside(count, database, "process") == 0


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
    heard = Heard()
    process = steady_queue.aio.embedding.prepare(worker(), events=heard)
    running_ = asyncio.create_task(process.run())
    await until((begun if moment == "on_start" else process.ready).is_set)
    process.stop()
    await asyncio.wait([running_])
    await running_
    go_on.set()
    assert begun.is_set()
    assert len(heard.of(ProcessStopped)) == 1
    assert await aside(count, database, "process") == 0
    if moment != "on_start":
        (fault,) = heard.of(RuntimeFault)
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
async def test_after_a_quit_quick_stop_hooks_are_called_whatever_time_there_was(
    database: str, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=seconds))
    monkeypatch.setattr("steady_queue.aio.process.deadlines.STOP_HOOKS_SECONDS", 30.0)  # however busy the machine is
    monkeypatch.setattr("steady_queue.aio.process.deadlines.EXIT_HOOKS_NOW_SECONDS", 30.0)
    told = noted("on_stop", "on_exit")
    async with running(worker()) as process:
        process.quit()
    assert [what for what, _ in told] == [f"{kind}.{moment}" for moment in ("on_stop", "on_exit") for kind in KINDS]


@pytest.mark.parametrize("moment", ["on_stop", "on_exit"])
async def test_a_quit_while_one_hook_runs_counts_for_the_next_as_well(
    database: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(hours=1))
    monkeypatch.setattr("steady_queue.aio.process.deadlines.EXIT_HOOKS_SECONDS", 3600)
    monkeypatch.setattr("steady_queue.aio.process.deadlines.FLUSH_NOW_SECONDS", 30.0)  # however busy the machine is
    begun, quitting = asyncio.Event(), asyncio.Event()

    @getattr(hooks.worker, moment)  # type: ignore[untyped-decorator]
    async def first(actor: hooks.Actor) -> None:
        begun.set()
        await quitting.wait()

    @getattr(hooks.worker, moment)  # type: ignore[untyped-decorator]
    async def second(actor: hooks.Actor) -> None:
        await asyncio.Event().wait()

    heard = Heard()
    process = steady_queue.aio.embedding.prepare(worker(), events=heard)
    runs = asyncio.create_task(process.run())
    await until(process.ready.is_set)
    process.stop()
    await begun.wait()
    process.quit()
    quitting.set()
    await runs
    assert [type(fault.exception) for fault in heard.of(RuntimeFault)] == [TimeoutError]


async def test_a_process_that_never_started_calls_nobody(database: str) -> None:
    told = noted("on_start", "on_stop", "on_exit")
    process = steady_queue.aio.embedding.prepare(worker())
    process.stop()
    await process.run()
    assert told == []


async def test_the_hooks_of_a_web_server_are_called_by_its_lifespan(database: str) -> None:
    told = noted("on_start", "on_exit")
    sent: list[str] = []
    asked: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    asked.put_nowait({"type": "lifespan.startup"})

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        raise NotImplementedError

    async def send(message: dict[str, str]) -> None:
        sent.append(message["type"])

    live = asyncio.create_task(SteadyQueue(nothing, worker())({"type": "lifespan"}, asked.get, send))
    await until(lambda: sent == ["lifespan.startup.complete"])
    assert [what for what, _ in told] == [f"{kind}.on_start" for kind in KINDS]
    asked.put_nowait({"type": "lifespan.shutdown"})
    await live
    assert [what for what, _ in told[3:]] == [f"{kind}.on_exit" for kind in KINDS]


@pytest.mark.parametrize("register", [hooks.worker.on_start, hooks.on_error])
def test_what_cannot_be_called_is_refused(register: Any) -> None:
    with pytest.raises(TypeError, match="requires a function, not 7"):
        register(7)
