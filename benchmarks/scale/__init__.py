"""What claims, limits and recurring tasks cost with many rows: `python -m benchmarks.scale`.

__main__.py    the parts and the command
claims.py      claims with many rows, many queues and paused queues
limits.py      bulk enqueues of limited tasks, and the release of a slot that many tasks wait for
recurring.py   thousands of recurring tasks that are due in the same minute
"""
