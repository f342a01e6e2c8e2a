"""Text that the queue only stores is shown safely: cut, and with visible escapes."""

from __future__ import annotations

import re
import sys
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template
from django.utils import translation

from steady_queue.monitoring import text

#: Joiners, which scripts and emoji need; and letters that Unicode calls format characters but that are visible.
SHOWN_AS_THEY_ARE = {"\u200c", "\u200d"}


def test_characters_that_hide_or_reorder_text_are_shown_as_escapes() -> None:
    assert text.show("a\x00b\x1b[31m\u202egpj.exe\u2066\u200b\ufeff") == (
        "a\\x00b\\x1b[31m\\u202egpj.exe\\u2066\\u200b\\ufeff"
    )
    assert text.show("lone \ud800 surrogate").encode() == b"lone \\ud800 surrogate"
    assert text.show("\U000e0041") == "\\U000e0041"
    assert text.show("tab\tand\nnewline, é, 漢字, עברית, 👩‍👩‍👧") == "tab\tand\nnewline, é, 漢字, עברית, 👩‍👩‍👧"


def test_no_control_character_and_no_character_that_changes_the_direction_is_shown() -> None:
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    unsafe = [
        one
        for one in map(chr, range(sys.maxunicode + 1))
        if (unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") and one not in "\n\t")
        or unicodedata.bidirectional(one) in bidirectional
    ]
    assert len(unsafe) > 2000
    assert [one for one in unsafe if text.show(one) == one] == []


def test_long_text_is_cut_and_says_how_much_is_missing() -> None:
    assert text.show("x" * 10_000_000, 5) == "xxxxx... (9,999,995 more characters)"
    assert text.show_line("one\ntwo\tthree", 20) == "one two three"
    assert text.show("12345", 5) == "12345"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *[(None, ""), (0, "0 ms"), (0.0426, "43 ms"), (1, "1.0 s"), (9.96, "10.0 s"), (59.4, "59 s"), (59.6, "1 min")],
        *[(60, "1 min"), (200, "3 min 20 s"), (3600, "1 h"), (90_000, "1 d 1 h"), (-200, "-3 min 20 s")],
    ],
)
def test_durations_have_units(seconds: float | None, shown: str) -> None:
    assert text.show_seconds(seconds) == shown


def render(source: str, **context: object) -> str:
    return Template("{% load steady_queue %}" + source).render(Context(context))


def test_the_filters_of_templates_escape_html() -> None:
    assert render("{{ value|shown:9 }}", value="<script>\u202e") == "&lt;script&gt;\\u202e"
    assert render("{{ value|line }}|{{ nothing|line }}|{{ nothing|shown }}", value="a\nb", nothing=None) == "a b||"
    assert render("{{ value|seconds }}", value=1.5) == "1.5 s"


def test_times_and_numbers_for_machines_are_the_same_in_every_locale() -> None:
    at = datetime(2026, 11, 18, 9, 5, tzinfo=UTC)
    with translation.override("de"):
        assert render("{{ value|plain_number }}{{ none|plain_number }}", value=1234.5, none=None) == "1234.5"
        shown = render("{% moment value %}{% moment none %}", value=at, none=None)
        assert re.fullmatch(
            r'<time datetime="2026-11-18T09:05:00\+00:00" title="[^"]+">2026-11-18 09:05:00</time>', shown
        )


def test_an_age_is_relative_to_now() -> None:
    now = datetime.now(UTC)
    assert ">2 h ago<" in render("{% age value %}", value=now - timedelta(hours=2, seconds=1))
    assert ">in 2 h<" in render("{% age value %}", value=now + timedelta(hours=2, seconds=1))
    assert " ago<" in render("{% age value %}", value=datetime.now() - timedelta(hours=2))
    assert render("{% age value %}", value=None) == ""


def test_memory_has_the_unit_of_max_rss() -> None:
    shown = [text.show_memory(size) for size in (None, 0, 123_456_789, 5 * 2**30)]
    assert shown == ["", "0 MiB", "118 MiB", "5,120 MiB"]
