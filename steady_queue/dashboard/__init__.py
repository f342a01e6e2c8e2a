"""The dashboard: pages in the Django admin that show the queue and change it.

The pages read with `steady_queue.monitoring` and change with `steady_queue.actions`. Each page is a ModelAdmin, so that
the admin lists it, links to it and asks for its permissions.

    site.py             the pages, by their models
    page.py             PageAdmin: what all pages have in common
    text.py             safe display of text that the queue only stores
    audit.py            who changed what, when and why, in the log of the admin
    charts.py           charts as inline SVG
    overview_page.py    everything at a glance
"""
