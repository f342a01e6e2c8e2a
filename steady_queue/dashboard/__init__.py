"""The dashboard: pages in the Django admin that show the queue and change it.

The pages read with `steady_queue.monitoring` and change with `steady_queue.actions`. Each page is a ModelAdmin, so that
the admin lists it, links to it and asks for its permissions.

    site.py                 the pages, by their models
    page.py                 PageAdmin: what all pages have in common
    audit.py                who changed what, when and why, in the admin's log
    charts.py               charts as inline SVG
    queue_names.py          names of queues as parts of URLs
    overview_page.py        everything at a glance
    job_list_page.py        lists of tasks by state, with filters
    job_filters.py          their filters, as chips and as a form
    job_page.py             one task: its life, its arguments, why it waits
    tracebacks.py           tracebacks without the calls of libraries
    job_stack.py            the stack of a running task, asked of its process
    job_edit_page.py        a failed task is retried with other arguments
    argument_form.py        arguments as JSON that can be edited, and back
    job_actions.py          actions on tasks: confirmation, changes in batches, result
    job_changes.py          what can be done with tasks, and what came of it for each
    job_batches.py          the state of an action that takes several requests
    confirmed_ids.py        the ids of the tasks that a page asks about, as the text of a field
    queue_page.py           the queues; pause, resume, clear
    process_page.py         the processes; stop
    limit_page.py           the concurrency limits that are in use
    recurring_page.py       recurring tasks: the list, the page of each, the coming day
    recurring_changes.py    run, enable, disable, add, edit and delete them
    recurring_form.py       the form of a recurring task
"""
