"""One process that runs tasks: how it is built, starts, stays alive and stops.

    process.py         runs the services, from the start to the shutdown: the composition root
    services.py        builds the services and connects them
    host.py            what a process asks of the program it runs in
    startup.py         checks the database before anything is written to it
    lifecycle.py       calls hooks and sends signals at the start, the stop and the exit
    connections.py     the few database connections of the runtime, and their timeout
    heartbeat.py       writes that this process is alive, and renews its lease
    measurements.py    what a heartbeat stores about the state of the process
    statistics_writer.py       writes what was done with tasks, after each heartbeat
    lost_lease.py      stops tasks, or the process, when the lease is lost
    requests.py        stops the process, and shows where its tasks are, when a person asks for it
    watchdog.py        a thread that reports, or ends, a process whose event loop is blocked
    recycling.py       stops a process after so many tasks, or with too much memory
    task_services.py   what the process does for its tasks: reports, and whether it stops
    stuck_threads.py   stops a process whose threads run tasks that have timed out and do not end
    shutdown.py        the stages of a stop, in their order
    deadlines.py       until when each of these stages may take

process.py and shutdown.py read from top to bottom: what a process does until a shutdown is requested, and after that.
"""
