"""Read the beginning of a JSON text whose rest was not read: what is open there is closed."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_OPEN_STRING = re.compile(r'"(?:[^"\\]|\\(?:[^u]|u[0-9a-fA-F]{4}))*')
_CLOSING = {"[": "]", "{": "}"}


def load_beginning(text: str) -> Any:
    """Return the value of a JSON text of which only the beginning is given; raises ValueError if it is not JSON.

    A string at the end is cut there. Any other value that may not be complete is left out.
    """
    open_: list[str] = []
    #: The text up to the last position where a value is complete, and what closes it.
    complete, closing = "", ""
    in_key = False
    position = 0
    for token in _TOKEN.finditer(text):
        if text[position : token.start()].strip():
            break
        position = token.end()
        kind = token.group()
        if kind in _CLOSING:
            open_.append(kind)
        elif kind in ("]", "}"):
            if not open_:
                break
            open_.pop()
        in_key = bool(open_) and open_[-1] == "{" and (kind in ("{", ",") or (in_key and kind[0] == '"'))
        if kind in ("[", "{", "]", "}") or (kind[0] == '"' and not in_key):
            complete, closing = text[:position], _close(open_)
        elif kind == ",":
            complete, closing = text[: token.start()], _close(open_)
    rest = text[position:].lstrip()
    if rest.startswith('"') and not in_key and (string := _OPEN_STRING.match(rest)):
        start = len(text) - len(rest)
        complete, closing = f'{text[: start + string.end()]}…"', _close(open_)
    return json.loads(complete + closing)


def _close(open_: list[str]) -> str:
    return "".join(_CLOSING[one] for one in reversed(open_))
