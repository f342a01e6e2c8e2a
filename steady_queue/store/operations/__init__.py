"""The operations. Those that each task passes are here, in its order:

    enqueue.py       insert a job and its first execution row
    notify.py        wake the listening processes
    dispatch.py      scheduled -> ready or blocked
    promote.py       blocked -> ready, within the limit of the concurrency key
    claim.py         ready -> claimed
    settle.py        claimed -> finished, failed, scheduled, or ready again
    results.py       read jobs with their status
    expiry.py        jobs that were not started in time
    endings.py       the end of a job that no process has claimed
    pending.py       read jobs that have not ended, in the order of their ids
    task_data.py     metadata, checkpoints and reports of a running task

The others:

    uniqueness/      the keys that only one job may have
    actions/         what people change: retry, discard, cancel, delete, pause
    processes/       register, heartbeat, requests, and the claims of processes that are gone
    maintenance/     repair, sweeps and statistics
    recurring/       the entries of recurring tasks, and their ticks
    monitoring/      bounded reads for people who look at the queue
    database/        the server, the schema and the character sets
"""
