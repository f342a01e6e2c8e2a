"""The queue's database: which it is, how to connect, and where the caller's transaction is.

aliases.py             drivers and connection parameters for an alias in DATABASES
loop_connections.py    async connections that belong to the running event loop
missing_tables.py      explain the error of a database in which `migrate` has not been run
transactions.py        run operations from sync or async code, inside or outside the caller's transaction
task_transaction.py    the transaction of a task that is settled in it
transaction_guard.py   refuse statements that would end a transaction, and notice that it has ended
ending_statements.py   find statements that end a transaction
notify.py              wake workers after an enqueue
watcher.py             the thread that reads the jobs which this process waits for
fork_pause.py          stop the event loop of a thread while the process forks
watch.py               one caller that waits for one job, and how often the job is read
result_channel.py      how a waiting process learns from PostgreSQL that a job has changed
"""
