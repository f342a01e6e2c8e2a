"""The storm: workers are killed, terminated and frozen at random while tasks run; no task may be lost or run twice.

tasks.py              the tasks, which append their attempts to the log
attempt_log.py        a file that survives any fault: which process began which attempt, and how it ended
worker_program.py     one `manage.py steady_queue --async`
workers.py            the worker processes, and the faults of each
driver.py             the faults and tasks of a seed, and the time without faults after them
job_records.py        the state of the jobs in the database
checker.py            compares all of this with what the guarantees allow
concurrency_peaks.py  how many tasks of a concurrency key ran at the same time
run.py                one storm and its check
report.py             the table of `python -m tests.storm`
databases.py          the databases of `python -m tests.storm`
"""
