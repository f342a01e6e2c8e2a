"""How fast tasks are enqueued: `python -m benchmarks.enqueue`.

__main__.py             the cases and the command
timing.py               the calls to enqueue, and how their rates are measured
steady_queue_calls.py   enqueues with Steady Queue
bare_drivers.py         writes the same rows with the bare database drivers
pgqueuer_calls.py       enqueues with PgQueuer, in bulk
stored_rows.py          checks that the measured jobs were stored
"""
