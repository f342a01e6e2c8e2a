"""Every SQL statement of Steady Queue, and nothing else.

    statement.py    a statement, a flow of statements, an operation: values, no I/O
    job.py          a job as it goes in, as it is claimed, as it is read back
    outcome.py      what can become of a claim
    identity.py     job and claim ids

    enqueue.py      job and first execution row together          promote.py  blocked -> ready within the limit
    dispatch.py     scheduled -> ready or blocked
    claim.py        ready -> claimed                              settle.py   claimed -> finished, failed, ready again
    result.py       read jobs back                                process.py  register, beat, deregister
    revision.py     retry and discard                             maintenance.py  the dead, the orphaned, the old
    sweep.py        the same for all that answer a description    cleanup.py  delete what ended long ago
    hurry.py        scheduled or blocked -> ready, by hand        overrun.py  slots that long jobs let go
    recurring.py    entries of recurring tasks                    tick.py     a tick and its job, once
    queues.py       names, sizes and pauses of queues             notify.py   tell listeners
    set_aside.py    rows that the database refuses to change

    sql/            the statements in the words of PostgreSQL, MySQL/MariaDB and SQLite
    drivers/        who carries a flow to the database: asyncpg, aiomysql, aiosqlite, or Django's own connection

A flow is a generator: it yields statements, receives rows and does no I/O, so that it is written once and means the
same in `enqueue()` and `aenqueue()`, in the admin and in the worker.

Lock order, in every flow: claimed -> job -> semaphore -> lock ids ascending -> blocked (skipping locked rows). After
the lock ids nothing is waited for.
"""
