"""Reads for people who look at the queue.

capped_counts.py        how many jobs there are, counted up to a limit
queue_heads.py          the first ready job of each queue, lane and priority
each_name.py            the same counts for several names, in one statement
limits.py               the concurrency keys that are in use
open_transactions.py    the oldest open transaction
"""
