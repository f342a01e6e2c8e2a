"""Tasks and jobs on the side of the application: define, enqueue, run, read results.

definition/         the decorator `@task`, its options and the policy of a task
enqueueing/         enqueue calls of tasks
running/            what a task can do while it runs, and what happens when it fails
results/            results of tasks, and waiting for them
registry.py         find the task of a stored path, and the limit it has in the code
json_values.py      metadata and checkpoints as JSON
task_signals.py     send the framework's signals, at no cost when only its own log is connected
framework_log.py    whether the framework's log would emit a line
compat.py           Django's task framework: `django.tasks` or `django_tasks`
"""
