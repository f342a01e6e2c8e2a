"""Reports of running tasks.

reports.py         writes the progress and the logs of tasks, in batches
task_reports.py    what one task has reported and is not written yet
task_counts.py     what was done with the tasks of each queue, minute by minute
"""
