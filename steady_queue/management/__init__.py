"""The management commands and their parts.

arguments.py           the arguments of `steady_queue`, and its help
options.py             options from the command line and the environment
banner.py              the lines that the command prints when it starts
log_output.py          log handlers for projects that have not configured logging
progress_bar.py        the progress bar of changes and checks of many tasks
stored_check.py        `steady_queue check --stored`: which stored tasks the code at hand could not run
replay.py              `steady_queue run <id>`: runs a stored task in this process
cancel.py              `steady_queue cancel`: cancels tasks by their ids or by a filter
status.py              `steady_queue status`: the queue at a glance
job_commands.py        `steady_queue jobs`: lists tasks, and shows them
job_changes.py         `steady_queue jobs --retry` and other changes of tasks
job_text.py            tasks as text
queue_commands.py      `steady_queue queues`: lists and changes queues
process_commands.py    `steady_queue processes`: lists and stops processes
shell_output.py        where these write: the width, colours and characters of a terminal, or JSON
closed_pipe.py         the end of a command whose output is closed
tables.py              tables of text, and sparklines
confirmation.py        questions before something is changed
reloader.py            `--reload`: restarts the command when the code changes
commands/              `manage.py steady_queue` and `manage.py steady_queue_clear`
"""
