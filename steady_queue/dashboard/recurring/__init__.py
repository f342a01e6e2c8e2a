"""Recurring tasks in the dashboard.

pages.py      the list, the page of each, the coming day
changes.py    run, enable, disable, add, edit and delete them
form.py       the form of a recurring task
"""
