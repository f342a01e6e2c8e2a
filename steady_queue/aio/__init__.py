"""The asyncio runtime. A task's life, in reading order:

    definition.py          a function becomes a task
    backend.py             the framework hands over a call of it
    enqueue.py             the call becomes a job row and its first execution row, in the caller's transaction
    store/claim.py         a process takes ready jobs for its free slots
    store/settle.py        what became of them is written, once

The services that run inside a process live in this package.
"""
