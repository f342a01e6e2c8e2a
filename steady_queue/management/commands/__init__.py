"""The management commands.

steady_queue.py          runs tasks; checks the project; reports the health of the processes
steady_queue_clear.py    deletes old finished and failed tasks
"""
