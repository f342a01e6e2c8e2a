"""The worker processes of other queues: one script for each, with the options and the messages of harness.py.

They are started by path and not as modules of this package: a peer may be installed in another environment, and one of
the peers is a package that is also called `steady_queue`.
"""
