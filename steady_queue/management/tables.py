"""Tables of text, aligned and no wider than the terminal, and sparklines."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.aio.command.terminal import Style
from steady_queue.monitoring.text import show_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from steady_queue.monitoring.states import Level

GAP = "  "
#: A column that may be cut is not cut further than this.
MIN_WIDTH = 8
#: Characters of a cell, where the output has no width.
CELL_CHARACTERS = 200
#: The colour of each level of a state.
COLOURS: Mapping[Level, str] = {"error": "red", "warning": "yellow", "info": "cyan", "ok": "green", "quiet": ""}
BARS, ASCII_BARS = "▁▂▃▄▅▆▇█", "_.:-=+*#"


class Column(NamedTuple):
    """A column of a table."""

    heading: str
    is_number: bool = False
    #: Whether its texts may be cut, at the end or, for dotted paths, at the beginning.
    may_cut: bool = False
    cuts_start: bool = False


class Cell(NamedTuple):
    """A text with a colour: the name of a method of Style."""

    text: str
    colour: str


def format_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]], width: int | None, style: Style
) -> Iterator[str]:
    """Return the lines of a table. Columns that do not fit are cut, then left out from the right."""
    shown = [[_safe(cell) for cell in row] for row in rows]
    headings = [column.heading for column in columns]
    widths = [max(text_width(cell.text) for cell in one) for one in zip(*[_plain(headings), *shown], strict=True)]
    widths = _fit(columns, widths, width)
    yield style.dim(_line(columns, _plain(headings), widths, Style()))
    for row in shown:
        yield _line(columns, row, widths, style)


def _plain(texts: Iterable[str]) -> list[Cell]:
    return [Cell(text, "") for text in texts]


def _safe(cell: str | Cell) -> Cell:
    text, colour = (cell, "") if isinstance(cell, str) else cell
    return Cell(show_line(text, CELL_CHARACTERS), colour)


def _fit(columns: Sequence[Column], widths: list[int], width: int | None) -> list[int]:
    """Return the widths of the columns that fit."""
    if width is None:
        return widths
    found = list(widths)
    while found and sum(found) + len(GAP) * (len(found) - 1) > width:
        cuttable = [at for at, size in enumerate(found) if columns[at].may_cut and size > MIN_WIDTH]
        if cuttable:
            found[max(cuttable, key=lambda at: found[at])] -= 1
        elif len(found) == 1:
            return [width]
        else:
            # The others need not be narrower than without this column.
            return _fit(columns[: len(found) - 1], widths[: len(found) - 1], width)
    return found


def _line(columns: Sequence[Column], cells: Sequence[Cell], widths: Sequence[int], style: Style) -> str:
    parts = []
    for column, cell, width in zip(columns, cells, widths, strict=False):
        text = cut_to(cell.text, width, cuts_start=column.cuts_start)
        padding = " " * (width - text_width(text))
        painted = getattr(style, cell.colour)(text) if cell.colour else text
        parts.append(f"{padding}{painted}" if column.is_number else f"{painted}{padding}")
    return GAP.join(parts).rstrip()


def text_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(one) for one in text)


def _character_width(one: str) -> int:
    if unicodedata.combining(one) or unicodedata.category(one) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(one) in "WF" else 1


def cut_to(text: str, width: int, *, cuts_start: bool = False) -> str:
    """Return a text that takes at most so many columns."""
    if text_width(text) <= width:
        return text
    kept: list[str] = []
    left = width - 1
    for one in reversed(text) if cuts_start else text:
        left -= _character_width(one)
        if left < 0:
            break
        kept.append(one)
    return f"…{''.join(reversed(kept))}" if cuts_start else f"{''.join(kept)}…"


def wrap(items: Iterable[Cell], width: int | None, style: Style) -> Iterator[str]:
    """Return lines of items, which are not cut."""
    line: list[str] = []
    used = 0
    for text, colour in items:
        size = text_width(text)
        if line and width is not None and used + len(GAP) + size > width:
            yield GAP.join(line)
            line, used = [], 0
        used += size + (len(GAP) if line else 0)
        line.append(getattr(style, colour)(text) if colour else text)
    if line:
        yield GAP.join(line)


def sparkline(values: Sequence[int], width: int | None, *, is_ascii: bool = False) -> str:
    """Return a character for each value, or for the sum of some that follow each other; a space is zero."""
    step = 1
    while width is not None and len(values) / step > max(1, width) and step < len(values):
        step += 1
    sums = [sum(values[at : at + step]) for at in range(0, len(values), step)]
    highest = max(sums, default=0)
    bars = ASCII_BARS if is_ascii else BARS
    return "".join(bars[-(-value * len(bars) // highest) - 1] if value > 0 else " " for value in sums)
