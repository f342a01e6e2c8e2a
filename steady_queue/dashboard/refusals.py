"""Refused: a request has a text that cannot be stored, which is said before the database is asked."""

from __future__ import annotations

from steady_queue.monitoring.text import show_line
from steady_queue.store.names import explain_unstorable


class Refused(Exception):
    """The user is led to the list of the page, with this message, unless the view shows it in another way."""


def check_name(what: str, name: str, length: int) -> str:
    """Return a name of a request; raises Refused if nothing can have it."""
    if problem := explain_unstorable(name, length):
        raise Refused(f"There is no {what} {show_line(name, 50)!r}: its name {problem}.")
    return name
