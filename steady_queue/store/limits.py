"""How long names may be. Checked before anything is stored, so that every database gives the same verdict."""

from __future__ import annotations

#: Queue names, task paths and names of backends, in characters.
NAME_LENGTH = 255
#: Concurrency keys and uniqueness keys, group included.
KEY_LENGTH = 512


def unstorable(text: str, length: int) -> str | None:
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
