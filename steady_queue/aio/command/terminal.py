"""Terminal: whether a stream shows colours and can redraw a line, how wide it is, and the colours themselves."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Returns to the start of the line and clears it.
CLEAR = "\r\x1b[K"
#: For a terminal that does not report its width.
DEFAULT_COLUMNS = 80


class Style(NamedTuple):
    """The colours of the output, or none. Red is for failures and errors only, yellow for warnings."""

    is_coloured: bool = False

    def bold(self, text: str) -> str:
        return self._paint(text, "1")

    def dim(self, text: str) -> str:
        return self._paint(text, "2")

    def red(self, text: str) -> str:
        return self._paint(text, "1;31")

    def green(self, text: str) -> str:
        return self._paint(text, "32")

    def yellow(self, text: str) -> str:
        return self._paint(text, "33")

    def cyan(self, text: str) -> str:
        return self._paint(text, "36")

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_coloured and text else text


class Terminal(NamedTuple):
    """A stream on which a line can be redrawn."""

    stream: IO[str]
    style: Style

    @property
    def columns(self) -> int:
        """The width at this moment: the user may resize the window."""
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or DEFAULT_COLUMNS
        except (OSError, ValueError):
            return DEFAULT_COLUMNS


def style_of(stream: Any, environ: Mapping[str, str], *, no_color: bool = False, force_color: bool = False) -> Style:
    """The colours for a stream. The command line overrides NO_COLOR, DJANGO_COLORS and TERM."""
    if no_color or force_color:
        return Style(force_color)
    is_refused = bool(environ.get("NO_COLOR")) or environ.get("DJANGO_COLORS") == "nocolor"
    return Style(can_redraw(stream, environ) and not is_refused)


def can_redraw(stream: Any, environ: Mapping[str, str]) -> bool:
    """Whether the stream is a terminal that understands escape sequences."""
    return bool(stream.isatty()) and environ.get("TERM") != "dumb"


class ClearingStream:
    """A text stream to a terminal whose last line may show the status: clears that line before it writes.

    Everything else is an attribute of the stream itself.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._is_at_line_start = True

    def write(self, text: str) -> int:
        if text:
            # In one call: the status line is drawn by another process.
            self._stream.write(f"{CLEAR}{text}" if self._is_at_line_start else text)
            self._is_at_line_start = text.endswith("\n")
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
