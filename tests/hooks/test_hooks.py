"""Lifecycle hooks in one process: when they are called, with what, and that their errors do not stop it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from typing import Any

import pytest

import steady_queue
from steady_queue import hooks
from steady_queue.aio import running
from steady_queue.asgi import SteadyQueue
from steady_queue.configuration import Dispatcher, Options, Worker
from steady_queue.events import JobsClaimed, ProcessStarted, ProcessStopped, RuntimeFault
from tests.hooks.helpers import KINDS, record_hook_calls
from tests.shop.models import Customer
from tests.support.databases.tables import count
from tests.support.runtime import EmittedEvents, in_thread, until, values, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

pytestmark = pytest.mark.anyio


async def test_each_actor_calls_its_three_hooks_once_and_is_described(database: str) -> None:
    calls = record_hook_calls("on_start", "on_stop", "on_exit")
    options = Options(workers=[Worker(queues=["mail", "default"], threads=4)], dispatchers=[Dispatcher(batch_size=7)])
    async with running(options) as process:
        assert [what for what, _ in calls] == [f"{kind}.on_start" for kind in KINDS]
    assert [what for what, _ in calls] == [f"{kind}.{m}" for m in ("on_start", "on_stop", "on_exit") for kind in KINDS]
    first, dispatcher, scheduler = (actor for _, actor in calls[:3])
    assert (first.kind, first.name, first.process_id) == ("worker", process.name, process.id)
    assert (first.pid, first.hostname, first.supervisor_id) == (os.getpid(), socket.gethostname(), None)
    assert first.queues == ("mail", "default")
    assert (first.metadata["threads"], dispatcher.metadata["batch_size"], dict(scheduler.metadata)) == (4, 7, {})
    with pytest.raises(AttributeError):
        first.kind = "scheduler"  # type: ignore[misc]


async def test_two_workers_of_one_process_start_with_a_call_each(database: str) -> None:
    calls = record_hook_calls("on_start")
    options = Options(workers=[Worker(queues=["a"]), Worker(queues=["b"])], only_work=True)
    async with running(options):
        pass
    assert [actor.queues for _, actor in calls] == [("a",), ("b",)]


async def test_nothing_is_claimed_before_the_start_hooks_have_returned_and_the_loop_goes_on(database: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @hooks.worker.on_start
    def warm(actor: hooks.Actor) -> None:
        begun.set()
        go_on.wait()

    result = await recording.rests.aenqueue("warm")
    emitted = EmittedEvents()
    async with asyncio.TaskGroup() as group:
        ended = asyncio.Event()

        async def run() -> None:
            async with running(worker(), events=emitted):
                await ended.wait()

        group.create_task(run())
        await until(begun.is_set)
        assert await in_thread(count, database, "process") == 1
        assert not emitted.of(JobsClaimed)
        assert not emitted.of(ProcessStarted)
        assert task_record.began == []
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

    calls = record_hook_calls(moment)
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        assert await values(await recording.rests.aenqueue("fine")) == ["fine"]
    assert len(calls) == 3
    faults = emitted.of(RuntimeFault)
    assert [type(fault.exception) for fault in faults] == [error, error]
    assert all(f"worker.{moment}" in fault.where and "bad" in fault.where for fault in faults)
    assert len(emitted.of(ProcessStopped)) == 1


@pytest.mark.parametrize("moment", ["on_start", "on_stop", "on_exit"])
async def test_a_sync_hook_that_raises_stop_iteration_is_reported(database: str, moment: str) -> None:
    @getattr(hooks.worker, moment)  # type: ignore[untyped-decorator]
    def bad(actor: hooks.Actor) -> None:
        next(iter(()))

    calls = record_hook_calls(moment)
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        pass
    (fault,) = emitted.of(RuntimeFault)
    assert isinstance(fault.exception, StopIteration)
    assert len(calls) == 3


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

    calls = record_hook_calls(moment)
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        assert await values(await recording.rests.aenqueue("fine")) == ["fine"]
    (fault,) = emitted.of(RuntimeFault)
    assert "cancelled its own task" in str(fault.exception)
    assert len(calls) == 3


async def test_a_hook_that_cannot_be_shown_is_called_and_reported(database: str) -> None:
    class Shy:
        def __call__(self, actor: hooks.Actor) -> None:
            raise LookupError("on purpose")

        def __repr__(self) -> str:
            raise LookupError("no name")

    hooks.worker.on_start(Shy())
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        pass
    (fault,) = emitted.of(RuntimeFault)
    assert "Shy that cannot be shown" in fault.where


async def test_a_process_that_never_started_calls_no_hook(database: str) -> None:
    calls = record_hook_calls("on_start", "on_stop", "on_exit")
    process = steady_queue.aio.embedding.prepare(worker())
    process.stop()
    await process.run()
    assert calls == []


async def test_the_hooks_of_a_web_server_are_called_by_its_lifespan(database: str) -> None:
    calls = record_hook_calls("on_start", "on_exit")
    sent: list[str] = []
    asked: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    asked.put_nowait({"type": "lifespan.startup"})

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        raise NotImplementedError

    async def send(message: dict[str, str]) -> None:
        sent.append(message["type"])

    live = asyncio.create_task(SteadyQueue(nothing, worker())({"type": "lifespan"}, asked.get, send))
    await until(lambda: sent == ["lifespan.startup.complete"])
    assert [what for what, _ in calls] == [f"{kind}.on_start" for kind in KINDS]
    asked.put_nowait({"type": "lifespan.shutdown"})
    await live
    assert [what for what, _ in calls[3:]] == [f"{kind}.on_exit" for kind in KINDS]


@pytest.mark.parametrize("register", [hooks.worker.on_start, hooks.on_error])
def test_what_cannot_be_called_is_refused(register: Any) -> None:
    with pytest.raises(TypeError, match="requires a function, not 7"):
        register(7)
