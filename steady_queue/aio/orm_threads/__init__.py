"""The ORM threads: a few threads that run the ORM calls of all async tasks.

Its modules:

    pool.py                 the threads of a process, as an executor that asgiref finds in the context of a task
    thread.py               one thread, and the task that holds it
    session.py              one task: its thread, its pending calls, what it has left open
    connections.py          the Django connections of a thread: which are held, broken or dead
    open_cursors.py         the cursors of a connection that stay open after the call which opened them
    default_executor.py     the event loop's default executor, for `asyncio.to_thread`
"""
