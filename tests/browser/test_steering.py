"""Queues and recurring tasks in the browser, and the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from steady_queue.models import Job
from steady_queue.queues import Queue
from tests.browser.conditions import wait_for
from tests.browser.project import tasks
from tests.browser.samples import wait_for_state

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

    from tests.browser.chromium import Browser

OVERVIEW = "/admin/steady_queue/overview/"
QUEUES = "/admin/steady_queue/queue/"
RECURRING = "/admin/steady_queue/recurringtask/"
LOOK = "const { outline, boxShadow } = getComputedStyle(arguments[0]); return [outline, boxShadow]"
#: More than a keyboard needs to reach an action of these pages.
MAX_STEPS = 80

pytestmark = [
    pytest.mark.xdist_group("browser actions"),
    pytest.mark.parametrize("site", ["postgres"], indirect=True),
]


def test_a_queue_is_paused_and_resumed(browser: Browser) -> None:
    browser.open(QUEUES)
    row("queue_1", browser).find_element(By.CSS_SELECTOR, "button").click()
    wait_for(lambda: "paused" in row("queue_1", browser).text, "the paused queue")
    assert Queue("queue_1").is_paused

    waits = tasks.quick.using(queue_name="queue_1").enqueue("waits")
    browser.open(f"{QUEUES}queue_1/")
    browser.wait_for_text("paused Workers claim none of its tasks.")
    browser.fill("#sq-reason", "the partner is back")
    browser.button("Resume this queue").click()
    browser.one(".messagelist")
    wait_for_state(waits, "finished")
    assert not Queue("queue_1").is_paused


def row(name: str, browser: Browser) -> WebElement:
    return browser.one(f"#sq-queue-{name}")


def test_a_recurring_task_is_run_now(browser: Browser) -> None:
    before = runs_of_quick()
    browser.open(RECURRING)
    entry = next(one for one in browser.all("tbody tr") if "nightly report" in one.text)
    assert "3:00" in entry.text or "03:00" in entry.text
    entry.find_element(By.CSS_SELECTOR, "button").click()

    browser.one(".messagelist")
    wait_for(lambda: runs_of_quick() == before + 1, "the run")


def runs_of_quick() -> int:
    finished = Job.objects.filter(task_path__endswith=".quick", finished_at__isnull=False)
    return finished.filter(arguments__contains="nightly").count()


@pytest.mark.parametrize(
    ("path", "action"),
    [
        (OVERVIEW, "Mark failures as seen"),
        (QUEUES, "Pause"),
        (RECURRING, "Run now"),
        (f"{QUEUES}mail/", "Pause this queue"),
    ],
)
def test_the_keyboard_reaches_each_action_and_shows_where_it_is(browser: Browser, path: str, action: str) -> None:
    browser.open(path)
    seen = []
    for _ in range(MAX_STEPS):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        focused = browser.driver.switch_to.active_element
        seen.append(focused.text)
        if focused.tag_name == "button" and focused.text.startswith(action):
            assert has_visible_focus(browser, focused)
            return
    raise AssertionError(f"{action} was not reached: {seen}")


def has_visible_focus(browser: Browser, element: WebElement) -> bool:
    """Whether the focused element differs from itself without the focus."""
    focused = browser.run(LOOK, element)
    browser.run("arguments[0].blur()", element)
    return bool(focused != browser.run(LOOK, element))
