"""The workers of other queues, each a script of its own with the same orders and the same reports.

Started by path, not as modules of this package: a peer may live in another environment, and one of them has our name.
"""
