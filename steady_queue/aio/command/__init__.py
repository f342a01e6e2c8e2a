"""What `manage.py steady_queue` runs, apart from its options, which are in management/.

    launch.py          runs everything in one loop, a supervisor, or a child
    hosts.py           what a process asks of the command: to exit, to release tasks
    os_signals.py      signals of the operating system: TERM, INT, HUP, QUIT
    fork_safety.py     processes that a task forks do not inherit the signal handlers
    drain.py           --drain: stops when the queues are empty
    terminal.py        colours, the width of a terminal, and output that clears the status line
    status_line.py     the line at the bottom of a terminal
    waiting_tasks.py   counts ready tasks for the status line
    totals.py          sums of tasks each minute, and totals at the stop
    pidfile.py         one supervisor per pidfile

The command imports these modules when it needs them: a child, a health check and a supervisor each need few of them.
"""
