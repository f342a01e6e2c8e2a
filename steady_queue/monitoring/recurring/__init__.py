"""Recurring tasks.

tasks.py             their schedules, last and next runs, and history
calendar.py          the runs of the coming day, by hour
schedule_words.py    a schedule in words
late_schedules.py    recurring tasks that should have run
"""
