"""The worker: claims ready jobs, runs their tasks and writes their outcomes.

Its modules, in the order of a job's path:

    worker.py           claims ready jobs for the free capacity, and starts them
    polling.py          how long to sleep between two polls, and how long ago a process has polled
    queues.py           from which queues to claim, and in which order
    capacity.py         how many jobs may run at once, and which are running; starts, stops and cancels them
    running.py          a job that runs now
    threads.py          the threads that run sync functions
    executor.py         runs one job and returns its outcome
    observed_results.py the results that are sent with the signals of a task
    settler.py          writes outcomes, in batches; one settler for jobs with any key, one for the others
    awaited.py          notifies the processes that wait for results
    unknown_tasks.py    releases jobs whose tasks only newer code has
    claims.py           the claims that the process holds, and whether it may make more
    control/            timeouts, cancellations and stacks of running tasks
    reporting/          what tasks report, and what the process counts
"""
