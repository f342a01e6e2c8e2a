"""How fast a worker process runs tasks, and what it costs: `python -m benchmarks.runtime`.

__main__.py        the sections and the command
throughput.py      no-op tasks per second, compared with bare drivers and other queues
task_logging.py    what Django's log of tasks costs
latency.py         the time from the commit of a job to the start of its task
waiting_tasks.py   ten thousand sleeping tasks in one process
idle.py            the statements and the CPU time of an idle process
progress.py        the statements of a process whose tasks report their progress
orm.py             async tasks that use Django's ORM, on several ORM lanes and on one
notifications.py   what NOTIFY costs many connections that enqueue at once
web_requests.py    what the worker costs the requests of a web server that it is embedded in
"""
