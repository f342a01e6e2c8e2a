"""Measurements, each beside what the bare drivers do with the same rows in the same run.

How fast tasks are enqueued: `python -m benchmarks.enqueue`

enqueue.py       the cases
calls.py         what is enqueued
ours.py          by Steady Queue
bare.py          by the bare drivers: the same rows without Steady Queue
rival.py         by PgQueuer, in bulk
race.py          rounds taken in turn, so that a noisy machine slows all sides alike
evidence.py      whether everything that was measured was really stored
table.py         what is printed

What the runtime promises: `python -m benchmarks.runtime`

runtime.py       the sections, one after the other
throughput.py    how many no-op tasks one process runs, beside bare drivers and peers
latency.py       from commit to start
multitude.py     ten thousand tasks that wait, in one process
idle.py          what a process with nothing to do costs
orm.py           async tasks that use the ORM, on several lanes and on one
storm.py         many connections that enqueue while a worker listens
rounds.py        one run of one side, and runs taken in turn
contenders.py    the sides as the measuring process sees them
peerage.py       the peers that may be installed
hands.py         the processes that work for a measurement
our_worker.py    such a process: ours
bare_worker.py   such a process: a bare driver doing our claims and finishes
peers/           such processes: other queues, each a script of its own
backends.py      the server's connections, counted meanwhile
tasks.py         what is run
settings.py      Django's settings with these tasks
scene.py         what every section is given
figures.py       what is printed: each figure beside its bar

What limits, recurring tasks and queues cost: `python -m benchmarks.semantics`

semantics.py     the parts, one after the other
claims.py        claims amid many rows, paused queues and names
limits.py        limited tasks beside unlimited ones, and a release beside many that wait
recurring.py     thousands of recurring tasks that are due at once, and who waits meanwhile

All of them

servers.py       private, durable servers with the queue's schema
"""
