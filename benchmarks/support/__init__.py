"""What the benchmarks share.

servers.py               starts private, durable servers with the queue's schema
second_database.py       another database on the same server
options.py               parses the values of command line options
report.py                prints the figures and compares them with their targets
rounds.py                runs systems in alternating rounds
systems.py               the systems to measure: Steady Queue, a bare driver, another queue
known_peers.py           the other queues that can be measured
processes.py             starts a worker process and exchanges messages with it
steady_queue_worker.py   the worker process of Steady Queue
bare_driver_worker.py    the worker process of a bare driver
connections.py           counts the connections of a PostgreSQL server
process_usage.py         the memory and the CPU time of a process
"""
