"""Every name of a queue has a URL of its own, which leads back to the name."""

from __future__ import annotations

import pytest
from django.contrib.admin.utils import quote

from steady_queue.dashboard.url_parts import decode, encode

NAMES = [
    "default",
    "real_time",
    "a/b/../c",
    "json",
    ".",
    "..",
    "pause",
    "_2F",
    "50 % off?",
    "it's \"quoted\" & <script>alert('x')</script>",
    "\u202egnitset",
    "تقارير",
    "line\nbreak\r\t",
    "#&=+;:@[]{}|\\^~`",
    "😀",
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_survives_a_url(name: str) -> None:
    part = encode(name)

    assert decode(part) == name
    assert "/" not in part
    assert part not in (".", "..", "json")


@pytest.mark.parametrize("name", ["default", "real_time", "a/b", "50 % off?"])
def test_the_log_of_the_admin_links_to_a_queue_with_the_same_part(name: str) -> None:
    assert encode(name) == quote(name)
