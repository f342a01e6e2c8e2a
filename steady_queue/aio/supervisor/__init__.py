"""A process that starts other processes, watches and replaces them.

    supervisor.py      runs until a shutdown is requested: the composition root
    children.py        starts, checks, replaces and stops child processes
    child_position.py        what one child runs, and when its replacement may start
    child.py           one child process: its orders, its messages and its exit
    parent_channel.py         the child's end of the socket to its supervisor
    pruner.py          settles the claims of a child that has exited
    restart_signals.py        sends the signal process_restarted

A child is an ordinary process of aio/process/ whose host is ChildHost in aio/command/hosts.py.
"""
