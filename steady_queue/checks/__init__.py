"""Checks before tasks run and while they run.

installation.py    system checks of one backend, of INSTALLED_APPS and of the queue's database
distribution.py    system check of the other distribution with the same import name
framework.py       system checks of TASKS and of the task framework's app and signals
project.py         system checks of the whole project: options, queues, pools, schema
preflight.py       `manage.py steady_queue check`: all of these, the tasks and the connections, in one report
stored_jobs.py     `manage.py steady_queue check --stored`: which stored jobs the code at hand could not run
health.py          `manage.py steady_queue health`: whether the processes of this machine poll for tasks
"""
