"""Recurring tasks.

entries.py    the entries of recurring tasks
ticks.py      a tick and its job, enqueued once
"""
