"""Unique keys.

unique_keys.py     the keys that only one job may have
conflicts.py       which of new jobs are stored
displacement.py    jobs that wait again without their unique keys
"""
