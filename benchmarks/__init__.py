"""Measurements, each beside what the bare drivers do with the same rows in the same run.

enqueue.py   how fast tasks are enqueued: `python -m benchmarks.enqueue`
calls.py     what is enqueued
ours.py      by Steady Queue
bare.py      by the bare drivers: the same rows without Steady Queue
rival.py     by PgQueuer, in bulk
race.py      rounds taken in turn, so that a noisy machine slows all sides alike
evidence.py  whether everything that was measured was really stored
servers.py   private, durable servers with the queue's schema
table.py     what is printed
"""
