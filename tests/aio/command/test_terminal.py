"""Colours and parts of the status line, without a terminal; tests/management/test_terminal.py has one."""

from __future__ import annotations

from io import StringIO

import pytest

from steady_queue.aio.command.status_line import format_parts, parts_of
from steady_queue.aio.command.terminal import CLEAR, ClearingStream, Style, style_of
from steady_queue.aio.supervisor.child import ProcessFigures


class FakeTerminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "options", "is_coloured"),
    [
        ({}, {}, True),
        ({"TERM": "xterm-256color"}, {}, True),
        ({"NO_COLOR": "0"}, {}, False),
        ({"NO_COLOR": ""}, {}, True),
        ({"DJANGO_COLORS": "nocolor"}, {}, False),
        ({"DJANGO_COLORS": "dark"}, {}, True),
        ({"TERM": "dumb"}, {}, False),
        ({}, {"no_color": True}, False),
        ({"NO_COLOR": "1", "TERM": "dumb"}, {"force_color": True}, True),
    ],
    ids=str,
)
def test_colours_are_for_terminals_whose_user_wants_them(
    environ: dict[str, str], options: dict[str, bool], is_coloured: bool
) -> None:
    assert style_of(FakeTerminal(), environ, **options).is_coloured == is_coloured
    assert style_of(StringIO(), environ, **options).is_coloured == bool(options.get("force_color"))


def test_a_stream_clears_the_status_line_once_for_each_line() -> None:
    out = StringIO()
    stream = ClearingStream(out)
    print("two", "words", file=stream)
    stream.write("")
    stream.writelines(["a\n", "b"])
    stream.write("c\nd\n")
    stream.flush()
    assert out.getvalue() == f"{CLEAR}two words\n{CLEAR}a\n{CLEAR}bc\nd\n"


FIGURES = ProcessFigures(processes=2, running=5, done=1204, failed=3, released=1)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (80, "2 processes · 1,204 done · 3 failed · 5 running · 10,000+ waiting · 402/s"),
        (72, "1,204 done · 3 failed · 5 running · 10,000+ waiting · 402/s"),
        (55, "1,204 done · 3 failed · 5 running · 10,000+ waiting"),
        (33, "1,204 done · 3 failed · 5 running"),
        (32, "1,204 done · 3 failed"),
        (15, "1,204 done"),
        (4, "1,20"),
        (0, ""),
        (-1, ""),
    ],
)
def test_the_line_fits_the_terminal_and_loses_its_least_important_parts_first(columns: int, expected: str) -> None:
    _, *parts = parts_of(FIGURES, 402.0, waiting="10,000+ waiting", problem=None, style=Style())
    assert format_parts(parts, columns) == expected
    _, *parts = parts_of(FIGURES, 402.0, waiting="10,000+ waiting", problem=None, style=Style(is_coloured=True))
    coloured = format_parts(parts, columns)
    assert ("\x1b[1;31m3 failed\x1b[0m" in coloured) == ("failed" in expected)


def test_an_outage_is_shown_instead_of_the_number_that_is_not_known() -> None:
    _, *parts = parts_of(FIGURES, 0.0, waiting=None, problem="database unavailable", style=Style())
    assert format_parts(parts, 80) == "2 processes · 1,204 done · 3 failed · 5 running · database unavailable · 0/s"
    assert format_parts(parts, 25) == "database unavailable"
    assert format_parts(parts[:2], 80) == "2 processes · 1,204 done"


def test_no_failure_is_not_red() -> None:
    parts = parts_of(ProcessFigures(1), 0.0, waiting=None, problem=None, style=Style(is_coloured=True))
    assert "31m" not in format_parts(parts, 80)
