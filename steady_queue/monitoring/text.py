"""Safe display of text that the queue only stores: names, arguments, errors, log lines.

Such text may be long, and may have characters that hide or reorder what is around them. It is cut, and those characters
are shown as escapes. Templates escape HTML by themselves; nothing here is marked as safe.
"""

from __future__ import annotations

import json
import re

#: Characters of a text that is shown.
SHOWN_CHARACTERS = 2_000
#: Characters of a text that is one of several on a line.
LINE_CHARACTERS = 200
#: Control characters except tab and newline, characters that change the direction of text, invisible characters except
#: the joiners that scripts need, and lone surrogates, which no page can have.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def show(value: object, limit: int = SHOWN_CHARACTERS) -> str:
    """Return a text that is safe to show: cut, and with escapes for characters that cannot be seen."""
    text = value if isinstance(value, str) else str(value)
    return _UNSAFE.sub(_escape, cut(text, limit))


def has_unseen(text: str) -> bool:
    """Whether a text has characters that `show` replaces by escapes."""
    return _UNSAFE.search(text) is not None


def show_line(value: object, limit: int = LINE_CHARACTERS) -> str:
    """Return the same on one line."""
    return re.sub(r"[\n\t]+", " ", show(value, limit))


def cut(text: str, limit: int) -> str:
    """Return the beginning of a text, and how much is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text) - limit:,} more characters)"


def escape_json(text: str) -> str:
    """Return JSON with escapes of its own for characters that cannot be seen: it means the same."""
    # In JSON such characters are in strings only.
    return _UNSAFE.sub(lambda match: json.dumps(match.group())[1:-1], text)


def show_seconds(seconds: float | None) -> str:
    """Return a duration for people: "0.25 s", "3 min 20 s", "2 d 4 h"; empty if it is not known."""
    if seconds is None:
        return ""
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds < 1:
        return f"{sign}{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{sign}{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, smaller_size, smaller in _UNITS:
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{sign}{whole // size:,} {unit}{f' {rest} {smaller}' if rest else ''}"
    return f"{sign}{whole} s"


def show_age(seconds: float) -> str:
    """Return how long ago something was; a negative age is in the future."""
    return f"{show_seconds(seconds)} ago" if seconds >= 0 else f"in {show_seconds(-seconds)}"


def show_memory(size_bytes: int | None) -> str:
    """Return an amount of memory for people: "118 MiB", the unit of `max_rss`; empty if it is not known."""
    return "" if size_bytes is None else f"{size_bytes / 2**20:,.0f} MiB"


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
