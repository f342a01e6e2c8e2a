"""Every SQL statement of Steady Queue, and nothing else.

    statement.py  a statement, a flow of statements, an operation: values without I/O
    names.py      lengths of names, and names that all processes agree on
    queue_selection.py  which queues a worker serves
    ids.py        job and claim ids
    job.py        a job as it is enqueued, as it is claimed, and as it is read
    outcome.py    the outcome of a claim: finished, failed, released
    operations/   the flows: what is done to jobs, queues, processes and recurring tasks
    sql/          the SQL of PostgreSQL, MySQL/MariaDB and SQLite
    drivers/      run operations with asyncpg, aiomysql, aiosqlite or Django's own connection

A flow is a generator: it yields statements, receives rows and does no I/O, so that it is written once and does the same
in `enqueue()` and `aenqueue()`, in the admin and in the worker.

Lock order, in every flow: maintenance lock (never waited for) -> row of a process -> execution rows -> job and
semaphore -> lock ids ascending -> blocked (skipping locked rows). After the lock ids no flow waits for a lock.
docs/architecture.md (Lock order) has the reasons.
"""
