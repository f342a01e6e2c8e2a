"""How fast `manage.py steady_queue` starts, stops and recovers: `python -m benchmarks.lifecycle`.

__main__.py          the measurements and the command
example_shop.py      the example project `shop` on any of the databases
timestamp_tasks.py   tasks that write the time at which they run into a file
"""
