"""Tasks in the dashboard.

list_page.py        lists of tasks by state, with filters
filters.py          their filters, as chips and as a form
detail_page.py      one task: its life, its arguments, why it waits
tracebacks.py       tracebacks without the calls of libraries
stack.py            the stack of a running task, asked of its process
edit_page.py        a failed task is retried with other arguments
actions.py          actions on tasks: confirmation, changes in batches, result
changes.py          what can be done with tasks, and what came of it for each
batches.py          an action that takes several requests, and its state between them
confirmed_ids.py    the ids of the tasks that a page asks about, as the text of a field
"""
