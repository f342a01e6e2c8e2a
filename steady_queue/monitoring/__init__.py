"""What people want to know about the queue, read for the dashboard, the command line and JSON.

Everything here only reads, with the ORM and a bounded number of queries: no query counts or sorts a table that grows
with the history of the queue. The values are frozen and know nothing of HTML.

    states.py                JobState: the states in which people look for tasks
    text.py                  safe display of text that the queue only stores
    counts.py                CappedCount: a count that ends at 10,000
    job_states.py            the state of a task, from its rows
    recurring.py             recurring tasks: schedules, last and next runs, history
    recurring_calendar.py    the runs of the coming day, by hour
    schedule_words.py        a schedule in words
    job_search.py            JobSearch: which tasks a list shows, as parameters of an URL
    job_pages.py             JobPage: one page of a list; the ids and the number of all tasks that match
    job_rows.py              JobRow: what a list shows of one task
    listings.py              in which order the tasks of a state are read, and by which filters
    sections.py              Section: a table in the order of an index
    positions.py             Position: a row of a list, as a cursor
    times.py                 times of requests, and times in the current time zone
    matching.py              which rows match the filters that no index has
    job_detail.py            JobDetail: everything that the page of a task shows
    timeline.py              the life of a task: its attempts, and what happened around them
    waiting_reasons.py       why a task waits, in sentences
    argument_text.py         arguments as readable text, with secrets redacted
    redaction.py             which values are not shown
    cut_json.py              reads the beginning of a long JSON text
    state_counts.py          how many tasks are in each state
    statistics.py            what ran in the last hour and day
    usage.py                 what runs now, by process and by queue
    process_list.py          processes as a tree, with what they measure
    process_jobs.py          the tasks that run in a process
    queue_list.py            queues: size, latency, rate, who serves them
    limit_list.py            concurrency limits: holders and waiting tasks
    late_schedules.py        recurring tasks that should have run
    attention.py             what needs attention, in sentences
    overview.py              everything at a glance
    json_values.py           the same as values of JSON
    job_json.py              tasks as values of JSON
"""
