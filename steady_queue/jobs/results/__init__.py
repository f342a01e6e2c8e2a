"""Results of tasks.

task_result.py       the class of results
results.py           a job as a result
attempt_errors.py    the errors of attempts: their class, and how they are read
old_arguments.py     the arguments that a task had before it was retried with others
waiting.py           wait for the end of a task, or follow it
updates.py           what changes while a task is followed
"""
