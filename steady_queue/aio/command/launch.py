"""Launch: runs the command's process, from its options to its exit status. Three kinds: one loop, supervisor, child.

`run` is the event loop of such a process.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from steady_queue.aio.command.drain import Drain
from steady_queue.aio.command.hosts import ChildHost, CommandHost
from steady_queue.aio.command.os_signals import handle_signals
from steady_queue.aio.command.status_line import StatusLine
from steady_queue.aio.command.totals import ExitCounter, Totals
from steady_queue.aio.command.waiting_tasks import WaitingTasks
from steady_queue.aio.process.host import EmbeddedHost
from steady_queue.aio.process.recycling import Recycling, TaskCounter
from steady_queue.aio.supervisor.child import ProcessFigures, open_channel
from steady_queue.aio.supervisor.parent_channel import ParentChannel
from steady_queue.aio.timing import SystemClock
from steady_queue.errors import ConfigurationError
from steady_queue.events import Events, Subscription, UnhandledSignal, log

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from steady_queue.aio.command.terminal import Terminal
    from steady_queue.aio.orm_threads.default_executor import DefaultExecutor
    from steady_queue.aio.process.host import Companion, Host
    from steady_queue.aio.process.process import Process
    from steady_queue.aio.supervisor.child import ChildOrders
    from steady_queue.aio.supervisor.supervisor import Supervisor
    from steady_queue.configuration import Options
    from steady_queue.management.options import ResolvedOptions
    from steady_queue.store.drivers.pool import AsyncDriver

T = TypeVar("T")

#: How often children report their state while the status line shows it.
STATUS_REPORT_SECONDS = 1.0
#: How long a child waits for its supervisor to accept why it did not start.
START_PROBLEM_SECONDS = 1.0


def run(main: Coroutine[Any, Any, T], *, use_uvloop: bool = True) -> T:
    """Run to the end.

    An asyncio task that raises SystemExit or KeyboardInterrupt makes the event loop raise it as well. When a job has
    started that task, the job is responsible for it, and the loop goes on.
    """
    with asyncio.Runner(loop_factory=new_event_loop if use_uvloop else asyncio.new_event_loop) as runner:
        loop = runner.get_loop()
        task = loop.create_task(main)
        while not task.done():
            try:
                loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt):
                if task.done():
                    raise
                logging.getLogger("steady_queue").exception("a task inside a job raised what would end the process")
        return task.result()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop, if that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


# -- the three kinds --------------------------------------------------------------------------------------------------


def run_in_one_loop(
    resolved: ResolvedOptions, *, terminal: Terminal | None, before_exit: Callable[[], None] | None
) -> None:
    """Run everything in this process; workers with more than one process have their other copies as children.

    `terminal` shows the status line, if there is one.
    `before_exit` is called if the process has to exit while tasks still run; None if it must not exit by itself,
    because other code called the command.
    """
    run(_run_in_one_loop(resolved, terminal, before_exit))


def run_supervisor(resolved: ResolvedOptions, *, terminal: Terminal | None, before_exit: Callable[[], None]) -> None:
    """Run a child for each worker and dispatcher, and supervise them."""
    run(_run_supervisor(resolved, terminal, before_exit), use_uvloop=False)


def run_child(orders: ChildOrders) -> None:
    """Run what the orders of the supervisor say."""
    run(_run_child(orders))


async def _run_in_one_loop(
    resolved: ResolvedOptions, terminal: Terminal | None, before_exit: Callable[[], None] | None
) -> None:
    from steady_queue.aio.embedding import prepare

    options = resolved.options
    counter, executor = TaskCounter(options.max_tasks), _set_default_executor()
    exit_steps = [] if before_exit is None else [before_exit]
    host = EmbeddedHost() if before_exit is None else CommandHost(executor, exit_steps)
    positions = options.additional_processes()
    # The program ends with the supervisor, if there is one, and not with the process in its event loop.
    process = prepare(options, events=_counted_events(counter), host=EmbeddedHost() if positions else host)
    supervisor = _build_supervisor(positions, terminal, host, process) if positions else None
    main = supervisor or process
    figures = partial(_figures, _add_exit_counter(main), supervisor, process, counter)
    totals = Totals(figures=figures, events=main.events, clock=SystemClock())
    exit_steps.insert(0, totals.emit_total)
    companions: list[Companion] = [totals.run]
    if resolved.drain:  # which ends when the queues are empty, and not before
        companions.append(_build_drain(resolved, main, process.services.upkeep).run)
    elif recycling := _build_recycling(process, counter):
        companions.append(recycling.run)
    companions += _build_status(resolved, figures, process.services.upkeep, terminal)
    await _run_with_signals(main, companions, is_exiting=before_exit is not None)
    if start_problem := process.start_problem or (supervisor.start_problem if supervisor else None):
        raise start_problem
    totals.emit_total()


async def _run_supervisor(
    resolved: ResolvedOptions, terminal: Terminal | None, before_exit: Callable[[], None]
) -> None:
    exit_steps = [before_exit]
    host = CommandHost(before_exit=exit_steps)
    supervisor = _build_supervisor(resolved.options.per_process(), terminal, host)
    figures = partial(_figures, _add_exit_counter(supervisor), supervisor)
    totals = Totals(figures=figures, events=supervisor.events, clock=SystemClock())
    exit_steps.insert(0, totals.emit_total)
    companions: list[Companion] = [totals.run]
    if resolved.drain:
        companions.append(_build_drain(resolved, supervisor, supervisor.driver).run)
    companions += _build_status(resolved, figures, supervisor.driver, terminal)
    await _run_with_signals(supervisor, companions)
    if supervisor.start_problem is not None:
        raise supervisor.start_problem
    totals.emit_total()


async def _run_child(orders: ChildOrders) -> None:
    from steady_queue.aio.embedding import prepare

    counter = TaskCounter(orders.options.max_tasks)
    channel = ParentChannel(open_channel(orders))
    try:
        process = prepare(
            orders.options,
            process_id=orders.id,
            supervisor_id=orders.supervisor_id,
            events=_counted_events(counter),
            host=ChildHost(channel, _set_default_executor()),
        )
    except ConfigurationError as error:
        # The supervisor reports it once, instead of each of its children.
        channel.send(start_problem=str(error), within_seconds=START_PROBLEM_SECONDS)
        raise SystemExit(1) from None
    companions: list[Companion] = [partial(channel.report, partial(_state, process, counter), orders.report_seconds)]
    if recycling := _build_recycling(process, counter):
        companions.append(recycling.run)
    await _run_with_signals(process, companions, before_run=partial(channel.watch, process.stop_by_signal))
    if process.start_problem is not None:
        raise process.start_problem


async def _run_with_signals(
    main: Process | Supervisor,
    companions: Sequence[Companion],
    *,
    is_exiting: bool = True,
    before_run: Callable[[], None] = lambda: None,
) -> None:
    loop = asyncio.get_running_loop()

    def report_unhandled(name: str) -> None:
        # In the event loop: a signal handler may interrupt anything.
        loop.call_soon_threadsafe(main.events.emit, UnhandledSignal(signal=name))

    with handle_signals(
        stop=main.stop_by_signal, quit_now=main.quit_by_signal, unhandled=report_unhandled, is_exiting=is_exiting
    ):
        before_run()
        await main.run(companions)


# -- their parts ------------------------------------------------------------------------------------------------------


def _counted_events(counter: TaskCounter) -> Events:
    return Events([log, Subscription(counter, TaskCounter.KINDS)])


def _set_default_executor() -> DefaultExecutor:
    from steady_queue.aio.orm_threads.default_executor import DefaultExecutor

    executor = DefaultExecutor()
    asyncio.get_running_loop().set_default_executor(executor)
    return executor


def _build_supervisor(
    positions: Sequence[Options], terminal: Terminal | None, host: Host, process: Process | None = None
) -> Supervisor:
    from steady_queue.aio.supervisor.supervisor import Supervisor

    report_seconds = None if terminal is None else STATUS_REPORT_SECONDS
    return Supervisor(positions, process=process, report_seconds=report_seconds, host=host)


def _build_recycling(process: Process, counter: TaskCounter) -> Recycling | None:
    options = process.options
    if options.max_tasks is None and options.max_rss is None:
        return None
    return Recycling(
        max_tasks=options.max_tasks,
        max_rss=options.max_rss,
        counter=counter,
        recycle=process.shutdown.recycle,
        events=process.events,
    )


def _build_drain(resolved: ResolvedOptions, main: Process | Supervisor, driver: AsyncDriver) -> Drain:
    has_dispatcher = bool(resolved.options.dispatchers) and not resolved.options.only_work
    return Drain(
        [worker.selection for worker in resolved.options.workers],
        has_dispatcher=has_dispatcher,
        driver=driver,
        ready=main.ready,
        on_empty=main.stop,
        events=main.events,
        outage=main.outage,
    )


def _build_status(
    resolved: ResolvedOptions, figures: Callable[[], ProcessFigures], driver: AsyncDriver, terminal: Terminal | None
) -> list[Companion]:
    if terminal is None:
        return []
    selections = [worker.selection for worker in resolved.options.workers]
    waiting = WaitingTasks(selections, driver=driver, clock=SystemClock())
    line = StatusLine(figures=figures, waiting=waiting, terminal=terminal, clock=SystemClock())
    return [waiting.run, line.run]


def _add_exit_counter(main: Process | Supervisor) -> ExitCounter:
    counter = ExitCounter(main.id)
    main.events.add(counter, ExitCounter.KINDS)
    return counter


def _figures(
    exits: ExitCounter,
    supervisor: Supervisor | None,
    process: Process | None = None,
    counter: TaskCounter | None = None,
) -> ProcessFigures:
    """Of all processes of this command, also of those that were replaced."""
    figures = exits.figures
    if process is not None and counter is not None:
        figures = figures.plus(_figures_of(process, counter))
    return figures.plus(supervisor.children.figures) if supervisor else figures


def _figures_of(process: Process, counter: TaskCounter) -> ProcessFigures:
    running = len(process.services.claims.running_jobs())
    return ProcessFigures(1, running, counter.done, counter.failed, counter.released)


def _state(process: Process, counter: TaskCounter) -> dict[str, int]:
    """What a child reports to its supervisor."""
    figures = _figures_of(process, counter)._asdict()
    del figures["processes"]
    return figures
