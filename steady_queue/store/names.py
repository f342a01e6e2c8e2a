"""How long names may be. Checked before anything is stored, so that every database gives the same verdict."""

from __future__ import annotations

from datetime import timedelta

#: Queue names, task paths and names of backends, in characters.
NAME_LENGTH = 255
#: Concurrency keys and uniqueness keys, group included.
KEY_LENGTH = 512
#: So long before now there still is a date on every database.
LONGEST_TIMEDELTA = timedelta(days=36_500)


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
    """Why no worker could be told to serve a queue of this name, or None."""
    if not name.strip():
        return "has an empty name, which no worker can serve"
    if "*" in name:
        return "has a star in its name, which stands for other queues where workers are told theirs"
    if name != name.strip():
        return "has blanks around its name, which are left out where workers are told theirs"
    return None
