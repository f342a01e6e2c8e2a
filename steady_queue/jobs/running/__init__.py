"""A task that runs.

context.py       the context of a running task
saving.py        store metadata and checkpoints of a running task
reports.py       the progress and the log of a task
requests.py      what a task raises to decide what happens to it
completion.py    settle a task in the transaction in which it writes
retries.py       what happens to a job whose attempt has failed
"""
