"""The dashboard: pages in the Django admin that show the queue and change it.

The pages read with `steady_queue.monitoring` and change with `steady_queue.actions`. Each page is a ModelAdmin, so that
the admin lists it, links to it and asks for its permissions.

    site.py             the pages, by their models
    page.py             PageAdmin: what all pages have in common
    overview_page.py    everything at a glance
    jobs/               lists of tasks, the page of a task, actions on tasks
    queue_page.py       the queues; pause and resume
    queue_clearing.py   a queue is cleared, in batches
    process_page.py     the processes; stop
    recurring/          recurring tasks
    limit_page.py       the concurrency limits that are in use
    audit.py            who changed what, when and why, in the admin's log
    charts.py           charts as inline SVG
    chart_period.py     which period they show
    argument_form.py    arguments as JSON that can be edited, and back
    refusals.py         texts of requests that cannot be stored
    url_parts.py        names, keys and ids as parts of URLs
"""
