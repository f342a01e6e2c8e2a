"""Names of queues, keys and ids as parts of URLs.

A name or key may have any character. The part is what the admin itself makes of an id, with
`django.contrib.admin.utils.quote`, so that the admin's log can link to queues; names that would mean something else in
a URL are escaped in the same way.
"""

from __future__ import annotations

import re

from django.contrib.admin.utils import quote

#: Parts that browsers remove, and the route of a view.
_RESERVED = (".", "..", "json")
_ESCAPE = re.compile("_([0-9A-F]{2})")


def encode(name: str) -> str:
    """The part of a URL for a name. It has no slash."""
    if name in _RESERVED:
        return f"_{ord(name[0]):02X}{name[1:]}"
    return str(quote(name))


def decode(part: str) -> str:
    """The name for a part of a URL."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), part)
