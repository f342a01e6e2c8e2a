"""The asyncio runtime. A task's life, in reading order:

    ../definition.py       a function becomes a task
    ../backend.py          the framework hands over a call of it
    ../enqueue.py          the call becomes a job row and its first execution row, in the caller's transaction
    ../wake.py             workers are told                               wakeup.py    a process hears it
    worker.py              claims ready jobs for the room there is        queues.py, turns.py, pace.py
    slots.py               starts them: in the loop or in a thread        orm_threads.py, threads.py
                           where the ORM calls of async tasks run         orm_thread.py, orm_session.py,
                                                                          thread_connections.py, open_cursors.py,
                                                                          other_threads.py
    executor.py            runs one and returns what became of it         reports.py
    settler.py             writes it, in batches that form by themselves

Around it: dispatcher.py (jobs whose time has come), scheduler.py, timetable.py and firing.py (recurring tasks),
maintenance.py (dead processes, lost slots, old jobs; steps.py, pruning.py, promotion.py, clearing.py, splitting.py),
heartbeat.py and trust.py (is this process still believed alive), watchdog.py (is its loop still going), stopping.py
(what becomes of running tasks), outage.py (the database is away), ../events (what is told of all this), lifecycle.py
and actors.py (hooks and signals of what starts and stops), connections.py, starting.py and admission.py (before it
works). services.py builds them, process.py runs them; `running()` in embedding.py puts that into any loop.

Processes of our own, in the order of their lives:

    launch.py              from options to an exit status: alone, supervisor or child            loop.py, signals.py
    pidfile.py             one at a time                                                         forks.py
    supervisor.py          the process that keeps the others                                     status.py, draining.py
    crew.py                starts, hears, replaces and stops them                                child.py, restarts.py
    tether.py              a child's end of the line                                             tally.py, retirement.py
    undertaker.py          what becomes of the tasks of one that has ended
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steady_queue.aio.embedding import running
    from steady_queue.aio.process.process import Process

__all__ = ["Process", "running"]

_HOMES = {"Process": "steady_queue.aio.process.process", "running": "steady_queue.aio.embedding"}


def __getattr__(name: str) -> object:
    # A health probe needs one small module of the runtime, and is not to import all of it.
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(home), name)
