"""Tasks and jobs on the side of the application: define, enqueue, read results.

task.py             the decorator `@task`, the class of its tasks, calls of tasks
enqueue.py          enqueue calls: `enqueue_all`, and what the backend's `enqueue` calls
signatures.py       refuse calls that do not fit the signature of their task
options.py          refuse options of a task: queue, priority, run_after, backend, function
policy.py           the policy of a task: attempts, timeout, expiry, with the defaults of the project
durations.py        durations as users write them
backoff.py          how long to wait before the next attempt
retries.py          what happens to a job whose attempt has failed
expiry.py           until when a task must have been started
key_text.py         the text of a key that is computed from the arguments of a call
uniqueness.py       at most one task with the same key
requests.py         what a task raises to decide what happens to it
caller_locale.py    the language and the time zone of the code that enqueued a task
context.py          the context of a running task
json_values.py      metadata and checkpoints as JSON
saving.py           store metadata and checkpoints of a running task
reports.py          the progress and the log of a task
completion.py       settle a task in the transaction in which it writes
new_jobs.py         build the rows of new jobs from calls
task_result.py      the class of results
attempt_errors.py   the errors of attempts: their class, and how they are read
old_arguments.py    the arguments that a task had before it was retried with others
results.py          a job as a result
waiting.py          wait for the end of a task, or follow it
updates.py          what changes while a task is followed
enqueued.py         the results of an enqueue
registry.py         find the task of a stored path, and the limit it has in the code
task_signals.py     send the framework's signals, at no cost when only its own log is connected
framework_log.py    whether the framework's log would emit a line
compat.py           Django's task framework: `django.tasks` or `django_tasks`
"""
