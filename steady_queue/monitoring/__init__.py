"""What people want to know about the queue, read for the dashboard, the command line and JSON.

Everything here only reads, with the ORM and a bounded number of queries: no query counts or sorts a table that grows
with the history of the queue. The values are frozen and know nothing of HTML.

    states.py                JobState: the states in which people look for tasks
    counts.py                CappedCount: a count that ends at 10,000
    job_states.py            the states of tasks that are known by their ids
    recurring.py             recurring tasks: schedules, last and next runs, history
    recurring_calendar.py    the runs of the coming day, by hour
    schedule_words.py        a schedule in words
"""
