"""Enqueue calls of tasks.

enqueue.py          `enqueue_all`, and what the backend's `enqueue` calls
new_jobs.py         build the rows of new jobs from calls
caller_locale.py    the language and the time zone of the code that enqueued a task
enqueued.py         the results of an enqueue
"""
