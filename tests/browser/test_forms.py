"""Forms in the browser: each is sent once, also after its page has refreshed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue import actions
from tests.browser.conditions import wait_for
from tests.browser.test_refresh import QUEUES, has_row, refresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.chromium import Browser

#: Nothing is sent, so the page stays; what would have been is counted.
COUNT_SENT = """
window.sent = 0;
addEventListener("submit", (event) => {
    if (!event.defaultPrevented) window.sent += 1;
    event.preventDefault();
});
"""
#: Sends the form in the row of a queue, and returns how often forms were sent until now.
SEND = """
[...document.querySelectorAll("tbody tr")]
    .find((row) => row.querySelector("th").innerText === arguments[0])
    .querySelector("form").requestSubmit();
return window.sent;
"""

pytestmark = [
    pytest.mark.xdist_group("browser actions"),
    pytest.mark.parametrize("site", ["postgres"], indirect=True),
]


@pytest.fixture
def queues(browser: Browser) -> Iterator[Browser]:
    actions.pause("mail")
    browser.open(QUEUES)
    browser.run(COUNT_SENT)
    yield browser
    for name in ("a first queue", "mail"):
        actions.resume(name)


def test_a_form_is_sent_once_also_if_the_page_refreshes(queues: Browser) -> None:
    assert queues.run(SEND, "mail") == 1
    assert queues.run(SEND, "mail") == 1

    actions.pause("a first queue")
    refresh(queues)
    wait_for(lambda: has_row(queues, "a first queue"), "the new queue")

    assert queues.run(SEND, "mail") == 1
    assert queues.run(SEND, "a first queue") == 2
    assert queues.run(SEND, "a first queue") == 2


def test_a_form_can_be_sent_again_after_the_user_went_back(queues: Browser) -> None:
    assert queues.run(SEND, "mail") == 1
    queues.run("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    assert queues.run(SEND, "mail") == 2
