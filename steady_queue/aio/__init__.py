"""The asyncio runtime. A task's life, in reading order:

    ../definition.py       a function becomes a task
    ../backend.py          the framework hands over a call of it
    ../enqueue.py          the call becomes a job row and its first execution row, in the caller's transaction
    ../wake.py             workers are told                               wakeup.py    a process hears it
    worker.py              claims ready jobs for the room there is        queues.py, pace.py
    slots.py               starts them: in the loop or in a thread        lanes.py, threads.py
    executor.py            runs one and returns what became of it         reports.py
    settler.py             writes it, in batches that form by themselves

Around it: dispatcher.py (jobs whose time has come), maintenance.py (dead processes, lost slots, old jobs), heartbeat.py
and trust.py (is this process still believed alive), watchdog.py (is its loop still going), stopping.py (what becomes of
running tasks), outage.py (the database is away), events.py (what is told of all this). process.py builds and runs
them; `running()` embeds that into any loop.
"""

from steady_queue.aio.embedding import running
from steady_queue.aio.process import Process

__all__ = ["Process", "running"]
