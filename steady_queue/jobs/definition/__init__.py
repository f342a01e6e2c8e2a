"""The definition of a task.

task.py          the decorator `@task`, the class of its tasks, calls of tasks
options.py       refuse options of a task: queue, priority, run_after, backend, function
policy.py        the policy of a task: attempts, timeout, expiry, with the defaults of the project
durations.py     durations as users write them
backoff.py       how long to wait before the next attempt
expiry.py        until when a task must have been started
uniqueness.py    at most one task with the same key
key_text.py      the text of a key that is computed from the arguments of a call
signatures.py    refuse calls that do not fit the signature of their task
"""
