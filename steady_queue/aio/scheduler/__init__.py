"""The scheduler: enqueues recurring tasks when they are due, each tick once.

Its modules:

    scheduler.py        keeps the timetable up to date with the stored entries, and sleeps until the next tick
    timetable.py        the entries in the order of their next ticks; no I/O
    ticks.py            enqueues the ticks that are due
    other_backends.py   enqueues ticks whose tasks belong to another task backend
    entry_disabler.py        switches off an entry that can never be enqueued
"""
