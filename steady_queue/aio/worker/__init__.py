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
    timed_calls.py      gives the call of a task a deadline, and ends it with TaskTimeout
    timeouts.py         cancels or reports jobs that have run longer than their timeout
    stacks.py           the current stack of a running job as text
    live_stacks.py      the same for a person who asks for it
    settler.py          writes outcomes, in batches; one settler for jobs with any key, one for the others
    awaited.py          notifies the processes that wait for results
    unknown_tasks.py    releases jobs whose tasks only newer code has
    reports.py          writes the progress and the logs of tasks, in batches
    task_reports.py     what one task has reported and is not written yet
    cancellations.py    cancels running tasks when that is requested
    task_counts.py      what was done with the tasks of each queue, minute by minute
    claims.py           the claims that the process holds, and whether it may make more
"""
