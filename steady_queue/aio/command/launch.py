"""Launch: a process of our own, from its options to its exit status. Three kinds: alone, supervisor, child.

Loop: the event loop of a process of our own, and how it runs to the end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from steady_queue.aio.command import launch
from steady_queue.aio.command.drain import Drain
from steady_queue.aio.command.os_signals import obeyed
from steady_queue.aio.command.status_line import Status
from steady_queue.aio.process.recycling import Retirement, TaskCounter
from steady_queue.aio.supervisor.child import ProcessFigures, line_of
from steady_queue.aio.timing import SystemClock
from steady_queue.errors import ConfigurationError
from steady_queue.events import Events, Subscription, UnhandledSignal, log

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from steady_queue.aio.orm_threads.default_executor import OtherThreads
    from steady_queue.aio.process.process import Process
    from steady_queue.aio.supervisor.child import ChildOrders
    from steady_queue.aio.supervisor.supervisor import Supervisor
    from steady_queue.configuration import Options
    from steady_queue.management.options import ResolvedOptions
    from steady_queue.store.drivers.pool import AsyncDriver

T = TypeVar("T")


def quickest() -> asyncio.AbstractEventLoop:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    launch: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return launch


def run(main: Coroutine[Any, Any, T], *, is_quick: bool = True) -> T:
    """Run to the end.

    An asyncio task that raises SystemExit or KeyboardInterrupt makes the loop raise it as well. When a job has started
    that task, it is the job's affair, and the loop goes on.
    """
    with asyncio.Runner(loop_factory=quickest if is_quick else asyncio.new_event_loop) as runner:
        launch = runner.get_loop()
        served = launch.create_task(main)
        while not served.done():
            try:
                launch.run_until_complete(served)
            except (SystemExit, KeyboardInterrupt):
                if served.done():
                    raise
                logging.getLogger("steady_queue").exception("a task inside a job raised what would end the process")
        return served.result()


#: How often children say how they are when somebody looks at the status, in seconds.
OFTEN = 1.0


def in_one_loop(resolved: ResolvedOptions, *, shows_status: bool, before_exit: Callable[[], None] | None) -> None:
    """Everything in this process, and beside it the other copies of workers that have more than one.

    `before_exit` is called if the process has to end while tasks still run; without it, it is not ours to end.
    """
    launch.run(_alone(resolved, shows_status, before_exit))


def supervised(resolved: ResolvedOptions, *, shows_status: bool, before_exit: Callable[[], None]) -> None:
    """A process for each worker and dispatcher, kept by this one."""
    launch.run(_supervisor(resolved, shows_status, before_exit), is_quick=False)


def child(given: ChildOrders) -> None:
    """One of those."""
    launch.run(_child(given))


async def _alone(resolved: ResolvedOptions, shows_status: bool, before_exit: Callable[[], None] | None) -> None:
    from steady_queue.aio.embedding import prepared

    options = resolved.options
    tally = TaskCounter(options.max_tasks)
    threads = _other_threads()
    process = prepared(options, events=Events([log, Subscription(tally, TaskCounter.KINDS)]))
    supervisor = _supervisor_of(options.additional_processes(), shows_status, beside=process)
    main = supervisor or process
    if before_exit is not None:
        main.at_last = partial(_exit_beside_what_runs, process, threads, before_exit, supervisor)
    if not resolved.drain:  # which ends with empty queues, and not before
        _retire_in_time(process, tally, process.retire)
    else:
        process.companions.append(_draining(resolved, main, process.services.upkeep).run)
    if shows_status:
        process.companions.append(_status(supervisor, process, tally).run)
    with obeyed(
        stop=main.stop_by_signal,
        quit_now=main.quit_by_signal,
        stray=_told_by(main.events),
        for_good=before_exit is not None,
    ):
        await main.run()
    if refusal := process.refusal or (supervisor.refusal if supervisor else None):
        raise refusal


async def _child(given: ChildOrders) -> None:
    from steady_queue.aio.embedding import prepared
    from steady_queue.aio.supervisor.channel import ParentChannel

    tally = TaskCounter(given.options.max_tasks)
    threads = _other_threads()

    def state() -> dict[str, object]:
        running = len(process.services.stopping.running)
        return {"running": running, "ended": tally.ended, "failed": tally.failed}

    def leave(status: int) -> None:
        # Only what was told to stop may run again. Who leaves because others took it for dead has nothing to give back.
        if process.services.told_of_end is not None:
            tether.hand_over(process.services.unfinished_claims())
        os._exit(status)

    tether = ParentChannel(line_of(given), every=given.every, state=state)
    try:
        process = prepared(
            given.options,
            process_id=given.id,
            supervisor_id=given.supervisor_id,
            leave_to_supervisor=tether.hand_over,
            events=Events([log, Subscription(tally, TaskCounter.KINDS)]),
            leave=leave,
        )
    except ConfigurationError as error:
        # The supervisor tells it: once, and not for each of its children.
        tether.say(refusal=str(error), within=1.0)
        raise SystemExit(1) from None

    def leaving() -> None:
        process.services.told_of_end = tether.over
        tether.hand_over(process.services.unfinished_claims())

    def stop() -> None:
        leaving()
        process.stop_by_signal()

    def quit_now() -> None:
        leaving()
        process.quit_by_signal()

    def retire() -> None:
        leaving()
        tether.say(retiring=True)
        process.retire()

    process.at_last = partial(_exit_beside_what_runs, process, threads, lambda: None)
    process.companions.append(tether.run)
    _retire_in_time(process, tally, retire)
    with obeyed(stop=stop, quit_now=quit_now, stray=_told_by(process.events), for_good=True):
        tether.watch(stop)
        await process.run()
    if process.refusal is not None:
        raise process.refusal


async def _supervisor(resolved: ResolvedOptions, shows_status: bool, before_exit: Callable[[], None]) -> None:
    options = resolved.options
    supervisor = _supervisor_of(options.per_process(), shows_status)
    assert supervisor is not None, "options without a problem run something"
    supervisor.at_last = lambda: _exit(before_exit) if supervisor.lifecycle.is_left_with_hooks else None
    if resolved.drain:
        supervisor.companions.append(_draining(resolved, supervisor, supervisor.driver).run)
    if shows_status:
        supervisor.companions.append(_status(supervisor, None, None).run)
    stray = _told_by(supervisor.events)
    with obeyed(stop=supervisor.stop_by_signal, quit_now=supervisor.quit_by_signal, stray=stray, for_good=True):
        await supervisor.run()
    if supervisor.refusal is not None:
        raise supervisor.refusal


def _supervisor_of(posts: Sequence[Options], shows_status: bool, beside: Process | None = None) -> Supervisor | None:
    """The supervisor of these processes, if there are any."""
    if not posts:
        return None
    from steady_queue.aio.supervisor.supervisor import Supervisor

    return Supervisor(posts, beside=beside, every=OFTEN if shows_status else None)


def _told_by(told: Events) -> Callable[[str], object]:
    """What is done about a signal that means nothing: in the loop, as its handler may interrupt anything."""
    launch = asyncio.get_running_loop()
    return lambda name: launch.call_soon_threadsafe(told.emit, UnhandledSignal(signal=name))


def _other_threads() -> OtherThreads:
    from steady_queue.aio.orm_threads.default_executor import OtherThreads

    threads = OtherThreads()
    asyncio.get_running_loop().set_default_executor(threads)
    return threads


def _retire_in_time(process: Process, tally: TaskCounter, retire: Callable[[], None]) -> None:
    options = process.options
    if options.max_tasks is not None or options.max_rss is not None:
        retirement = Retirement(
            max_tasks=options.max_tasks, max_rss=options.max_rss, tally=tally, retire=retire, events=process.events
        )
        process.companions.append(retirement.run)


def _draining(resolved: ResolvedOptions, main: Process | Supervisor, driver: AsyncDriver) -> Drain:
    patterns = [name for worker in resolved.options.workers for name in worker.queues]
    dispatches = bool(resolved.options.dispatchers) and not resolved.options.only_work
    return Drain(
        patterns,
        dispatches=dispatches,
        driver=driver,
        ready=main.ready,
        drained=main.stop,
        events=main.events,
        outage=main.outage,
    )


def _status(supervisor: Supervisor | None, process: Process | None, tally: TaskCounter | None) -> Status:
    def facts() -> ProcessFigures:
        here = ProcessFigures()
        if process is not None and tally is not None:
            here = ProcessFigures(1, len(process.services.stopping.running), tally.ended, tally.failed)
        return here.plus(supervisor.crew.facts if supervisor else ProcessFigures())

    return Status(facts=facts, stream=sys.stderr, clock=SystemClock())


def _exit_beside_what_runs(
    process: Process, threads: OtherThreads, before_exit: Callable[[], None], supervisor: Supervisor | None = None
) -> None:
    """Leave at once if tasks or hooks still run: the interpreter would wait for them, and all is written."""
    lifecycles = [main.lifecycle for main in (process, supervisor) if main is not None]
    if process.abandoned or threads.calls or any(lifecycle.is_left_with_hooks for lifecycle in lifecycles):
        _exit(before_exit)


def _exit(before_exit: Callable[[], None]) -> None:
    before_exit()
    logging.shutdown()
    os._exit(0)
