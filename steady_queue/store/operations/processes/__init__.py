"""Processes, and their claims.

registration.py    register, heartbeat, deregister
requests.py        what processes are asked, and their replies
actors.py          what the row of a process says that it runs
prune.py           end the claims of dead processes
lost_claims.py     fail, retry, cancel or release the claims of processes that are gone
"""
