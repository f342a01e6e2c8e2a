"""The operations, in the order in which a task passes them.

    enqueue.py       insert a job and its first execution row
    notify.py        wake the listening processes
    dispatch.py      scheduled -> ready or blocked
    promote.py       blocked -> ready, within the limit of the concurrency key
    claim.py         ready -> claimed
    settle.py        claimed -> finished, failed, scheduled, or ready again
    results.py       read jobs with their status
    expiry.py        jobs that were not started in time
    unique_keys.py   the keys that only one job may have
    uniqueness.py    which of new jobs are stored
    displacement.py  jobs that wait again without their unique keys
    endings.py       the end of a job that no process has claimed
    pending.py       read jobs that have not ended, in the order of their ids
    task_data.py     metadata, checkpoints and reports of a running task

Manual actions:

    actions.py       retry, discard, run now
    cancellation.py  end jobs that wait, and request that jobs that run are stopped
    corrections.py   retry a job with other arguments
    bulk_actions.py  retry, discard and cancel all jobs that match a filter
    cleanup.py       delete jobs that ended long ago
    queues.py        names, size, latency, pause and resume

Processes and repair:

    processes.py     register, heartbeat, deregister
    process_requests.py       what processes are asked, and their replies
    lost_claims.py   fail, retry, cancel or release the claims of processes that are gone
    actors.py        what the row of a process says that it runs
    prune.py         end the claims of dead processes
    maintenance.py   find work, overrun slots, ownerless slots, stranded keys, old jobs
    statistics.py    what processes did in each minute, and in each hour
    sweeps.py        expired jobs, unique keys that are no longer needed
    set_aside.py     rows whose changes the database rejects

Monitoring:

    capped_counts.py  how many jobs there are, counted up to a limit
    queue_heads.py    the first ready job of each queue, lane and priority
    limits.py         the concurrency keys that are in use
    open_transactions.py      the oldest open transaction

Recurring tasks, server and schema:

    recurring.py     the entries of recurring tasks
    ticks.py         a tick and its job, enqueued once
    database_server.py        version of the server, applied migrations
    table_shapes.py  whether the tables and columns of this version are there
    charset.py       character sets on MySQL and MariaDB
"""
