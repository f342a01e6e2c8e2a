"""Read the beginning of a JSON text whose rest was not read: what is open there is closed."""

from __future__ import annotations

import json
import re
from typing import Any

#: Containers in containers; deeper ones are not read.
MAX_DEPTH = 200
_TOKEN = re.compile(r'\s*("(?:[^"\\]++|\\.)*+"|[\[\]{},:]|[^\s\[\]{},:"]+)')
_OPEN_STRING = re.compile(r'\s*"(?:[^"\\]++|\\(?:[^u]|u[0-9a-fA-F]{4}))*+')
#: The first half of a character that JSON writes as two; the backslashes before it are pairs, which are characters.
_HALF = re.compile(r"(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}$")
_CLOSING = {"[": "]", "{": "}"}


def load_beginning(text: str) -> Any:
    """Return the value of a JSON text of which only the beginning is given; raises ValueError if it is not JSON.

    A string at the end is cut there. Any other value that may not be complete is left out.
    """
    open_: list[str] = []
    #: Where a value is complete, and what is open there can be closed.
    complete, position = 0, 0
    in_key = False
    while token := _TOKEN.match(text, position):
        position = token.end()
        kind = token.group(1)
        if kind in _CLOSING:
            open_.append(kind)
        elif kind in ("]", "}") and open_:
            open_.pop()
        if len(open_) > MAX_DEPTH:
            raise ValueError("the text is nested too deeply")
        in_key = bool(open_) and open_[-1] == "{" and (kind in ("{", ",") or (in_key and kind[0] == '"'))
        if kind in ("[", "{", "]", "}") or (kind[0] == '"' and not in_key):
            complete = position
        elif kind == ",":
            complete = token.start()
    beginning = text[:complete]
    if not in_key and (string := _OPEN_STRING.match(text, position)):
        beginning = _HALF.sub(r"\1", text[: string.end()]) + '…"'
    return json.loads(beginning + "".join(_CLOSING[one] for one in reversed(open_)))
