"""Maintenance.

steps.py         find work, overrun slots, ownerless slots, stranded keys, old jobs
sweeps.py        expired jobs, unique keys that are no longer needed
set_aside.py     rows whose changes the database rejects
statistics.py    what processes did in each minute, and in each hour
"""
