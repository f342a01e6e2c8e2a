"""Lengths of names, and the few names that the database and every process must agree on.

Lengths are checked before anything is stored, so that every database accepts and refuses the same names.
"""

from __future__ import annotations

from datetime import timedelta

#: Queue names, task paths and names of backends, in characters.
NAME_LENGTH = 255
#: Concurrency keys and uniqueness keys, group included, in characters.
KEY_LENGTH = 512
#: Every database can represent the time this long before now.
LONGEST_TIMEDELTA = timedelta(days=36_500)
#: The PostgreSQL channel on which workers listen for new jobs.
NOTIFY_CHANNEL = "steady_queue"
#: The PostgreSQL channel on which processes listen that wait for results.
RESULTS_CHANNEL = "steady_queue_results"
#: Concurrency keys hash into this many lock ids; the id after the last one is the lock of maintenance.
LOCK_ID_COUNT = 1024


def database_option(alias: str) -> str:
    """The option of `manage.py migrate` for a database, with a space before it; empty for the default database."""
    return "" if alias == "default" else f" --database={alias}"


def explain_unstorable(text: str, length: int) -> str | None:
    """Why a name cannot be stored, or None."""
    if len(text) > length:
        return f"has {len(text)} characters, at most {length} can be stored"
    if "\x00" in text:
        return "contains a NUL character, which not every database can store"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "contains a lone surrogate, which not every database can store"
    return None


def explain_bad_queue_name(name: str) -> str | None:
    """Why no worker can be configured to serve a queue of this name, or None."""
    if not name.strip():
        return "has an empty name, which no worker can serve"
    if "*" in name:
        return "has an asterisk in its name, which is a wildcard in the queues of a worker"
    if name != name.strip():
        return "has whitespace around its name, which is stripped from the queues of a worker"
    return None
