"""Recurring tasks: definitions, schedules, entries that are added at run time. Schedulers in steady_queue.aio run them.

definitions.py    the decorator `@recurring`, recurring tasks of the settings, and their checks
entries.py        add, change, enable, disable and remove recurring tasks at run time
manual_runs.py    run the task of an entry now, apart from its schedule
schedule.py       a schedule and its ticks: intervals, aliases and cron expressions
time_zones.py     the ticks of a cron expression in a time zone, and the rule for days on which the clocks change
cron.py           cron expressions in local time, without a time zone
catch_up.py       which ticks are enqueued when some were missed
"""
