"""What people want to know about the queue, read for the dashboard, the command line and JSON.

Everything here only reads, with the ORM and a bounded number of queries: no query counts or sorts a table that grows
with the history of the queue. The values are frozen and know nothing of HTML.

    overview.py        everything at a glance
    attention.py       what needs attention, in sentences
    states.py          JobState: the states in which people look for tasks; the level of each
    state_counts.py    how many tasks are in each state
    statistics.py      what ran in the last hour and day
    usage.py           what runs now, by process and by queue
    queue_list.py      queues: size, latency, rate, who serves them
    process_list.py    processes as a tree, with what they measure
    process_jobs.py    the tasks that run in a process
    limit_list.py      concurrency limits: holders and waiting tasks
    jobs/              lists of tasks, and everything about one task
    recurring/         recurring tasks
    json_values.py     the overview, queues and processes as values of JSON
    counts.py          CappedCount: a count that ends at 10,000
    text.py            safe display of text that the queue only stores
    times.py           times of requests, and times in the current time zone
"""
