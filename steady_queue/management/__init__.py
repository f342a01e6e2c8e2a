"""The management commands and their parts.

options.py         options from the command line and the environment
banner.py          the lines that the command prints when it starts
log_output.py      log handlers for projects that have not configured logging
progress_bar.py    the progress bar of `steady_queue_clear` and `steady_queue check --stored`
stored_check.py    `steady_queue check --stored`: which stored tasks the code at hand could not run
replay.py          `steady_queue run <id>`: runs a stored task in this process
cancel.py          `steady_queue cancel`: cancels tasks by their ids or by a filter
reloader.py        `--reload`: restarts the command when the code changes
commands/          `manage.py steady_queue` and `manage.py steady_queue_clear`
"""
