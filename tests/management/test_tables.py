"""Tables and sparklines of the command line."""

from __future__ import annotations

from steady_queue.aio.command.terminal import Style
from steady_queue.management.tables import Cell, Column, cut_to, format_table, sparkline, text_width, wrap

PLAIN = Style()
COLUMNS = [Column("name", may_cut=True), Column("count", is_number=True), Column("path", may_cut=True, cuts_start=True)]


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    rows = [["mail", "1", "shop.tasks.send"], ["報告", "1,000", "a\x1bb\nc"]]
    assert list(format_table(COLUMNS, rows, None, PLAIN)) == [
        "name  count  path",
        "mail      1  shop.tasks.send",
        "報告  1,000  a\\x1bb c",
    ]


def test_a_table_is_never_wider_than_the_terminal() -> None:
    rows: list[list[str | Cell]] = [["a long name of a queue", Cell("1", "red"), "shop.some.package.tasks.send_mail"]]
    for width in range(1, 80):
        for line in format_table(COLUMNS, rows, width, PLAIN):
            assert text_width(line) <= width
    assert list(format_table(COLUMNS, rows, 36, PLAIN))[1] == "a long name …      1  …sks.send_mail"


def test_texts_are_cut_and_wrapped_by_their_width() -> None:
    assert (cut_to("abcdef", 4), cut_to("abcdef", 4, cuts_start=True), cut_to("報告書", 4)) == ("abc…", "…def", "報…")
    assert text_width("e\u0301") == 1
    items = [Cell(f"state {number}", "") for number in range(4)]
    assert list(wrap(items, 20, PLAIN)) == ["state 0  state 1", "state 2  state 3"]


def test_a_sparkline_is_as_high_as_its_largest_value_and_as_wide_as_there_is_room() -> None:
    assert sparkline([0, 1, 4, 8], None) == " ▁▄█"
    assert sparkline([0, 1, 4, 8], None, is_ascii=True) == " _-#"
    assert sparkline([1, 1, 2, 2], 2) == "▄█"
    assert sparkline([0, 0], None) == "  "
    assert len(sparkline([1] * 60, 45)) == 30
