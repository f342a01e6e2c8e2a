"""The output of the actions that show the queue: as wide as the terminal, with its colours and characters, or JSON."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from steady_queue.aio.command.terminal import DEFAULT_COLUMNS, Style, style_of
from steady_queue.monitoring.text import show_age
from steady_queue.monitoring.times import show_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from django.core.management.base import OutputWrapper

    from steady_queue.management.tables import Cell, Column

#: What the output has beside the texts of the queue.
_CHARACTERS = "▁█…└─·"
_DEFAULT_SIZE = os.terminal_size((DEFAULT_COLUMNS, 24))
_REPLACED = str.maketrans({"…": "~", "└": "`", "─": "-", "·": "-"})


@dataclass(frozen=True, slots=True)
class ShellOutput:
    """Where an action writes."""

    out: OutputWrapper
    err: OutputWrapper
    style: Style
    as_json: bool

    @classmethod
    def of(cls, out: OutputWrapper, err: OutputWrapper, options: Mapping[str, Any]) -> ShellOutput:
        style = style_of(out, os.environ, no_color=bool(options["no_color"]), force_color=bool(options["force_color"]))
        return cls(out, err, style, bool(options["json"]))

    @property
    def width(self) -> int | None:
        """The width at this moment: the user may resize the window. None if the output is no terminal."""
        return _size().columns if self.out.isatty() else None

    @property
    def height(self) -> int:
        return _size().lines

    @property
    def is_ascii(self) -> bool:
        """Whether the output has no characters for bars and trees."""
        return not _can_encode(_CHARACTERS)

    def write(self, *lines: str) -> None:
        for line in lines:
            self.out.write(self.encodable(line))

    def write_json(self, value: Any) -> None:
        self.out.write(json.dumps(value))

    def note(self, *lines: str) -> None:
        """Write to stderr."""
        for line in lines:
            self.err.write(self.encodable(line), lambda text: text)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]]) -> Iterable[str]:
        from steady_queue.management.tables import format_table

        return format_table(columns, rows, self.width, self.style)

    def encodable(self, line: str) -> str:
        """Return a line that the encoding of the terminal has characters for."""
        if _can_encode(line):
            return line
        encoding = _encoding()
        return line.translate(_REPLACED).encode(encoding, "backslashreplace").decode(encoding)


def moment_text(moment: datetime | None) -> str:
    """A time in the time zone of the project."""
    return "" if moment is None else show_local(moment)


def age_text(moment: datetime | None, now: datetime | None = None) -> str:
    return "" if moment is None else show_age(((now or timezone.now()) - moment).total_seconds())


def _size() -> os.terminal_size:
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return _DEFAULT_SIZE
    return size if size.columns and size.lines else _DEFAULT_SIZE


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _can_encode(text: str) -> bool:
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        return False
    return True
