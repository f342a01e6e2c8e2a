"""The ids of the tasks that a page asks about, as the text of a field: the next request changes no others."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterable

_BYTES = 16
_UNREADABLE = "the form does not say which tasks were confirmed; open it again"


def encode(ids: Iterable[UUID]) -> str:
    """Return the text of these ids: 22 characters for each."""
    return base64.urlsafe_b64encode(b"".join(id_.bytes for id_ in ids)).decode()


def decode(text: str | None) -> frozenset[UUID] | None:
    """Return the ids of a text; None without a text, which means that there is no limit. Raises ValueError."""
    if text is None:
        return None
    try:
        # Without validation, characters that mean nothing are left out.
        stored = base64.b64decode(text, altchars=b"-_", validate=True)
    except ValueError:
        raise ValueError(_UNREADABLE) from None
    if len(stored) % _BYTES:
        raise ValueError(_UNREADABLE)
    return frozenset(UUID(bytes=stored[at : at + _BYTES]) for at in range(0, len(stored), _BYTES))
