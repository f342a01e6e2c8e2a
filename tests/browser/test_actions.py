"""Queues and recurring tasks in the browser, and the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from steady_queue.models import Job, Process
from steady_queue.models.recurring import RecurringTask
from steady_queue.queues import Queue
from tests.browser.conditions import wait_for
from tests.browser.project import tasks
from tests.browser.samples import wait_for_state
from tests.browser.site import running
from tests.support.wait import WAIT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

    from tests.browser.chromium import Browser
    from tests.browser.site import Site

OVERVIEW = "/admin/steady_queue/overview/"
QUEUES = "/admin/steady_queue/queue/"
PROCESSES = "/admin/steady_queue/process/"
RECURRING = "/admin/steady_queue/recurringtask/"
FOCUSED = "const { tagName, innerText } = document.activeElement; return [tagName, innerText]"
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


def test_clearing_a_queue_asks_how_many_tasks_to_delete_and_deletes_them(browser: Browser) -> None:
    name = f"clear-{uuid4().hex[:8]}"
    in_queue = tasks.quick.using(backend="anything", queue_name=name)
    waiting = [in_queue.enqueue("cleared") for _ in range(3)]
    other = tasks.quick.using(queue_name="reports").enqueue("stays")
    browser.open(f"{QUEUES}{name}/")
    browser.link("Clear this queue").click()
    browser.wait_for_text(f"This deletes 3 ready tasks of the queue {name}.")
    assert Job.objects.filter(queue_name=name).count() == 3

    late = in_queue.enqueue("enqueued after the question")
    browser.fill("#sq-reason", "sent twice")
    browser.button("Delete the ready tasks").click()

    browser.wait_for_text(f"3 ready tasks of the queue {name} deleted.")
    left = Job.objects.filter(id__in=[task.id for task in (*waiting, late, other)])
    assert {str(id_) for id_ in left.values_list("id", flat=True)} == {late.id, other.id}
    assert "1" in row(name, browser).text


def test_a_process_is_stopped_from_its_page_which_says_that_it_has_ended(fast_browser: Browser, site: Site) -> None:
    browser = fast_browser
    known = set(Process.objects.values_list("id", flat=True))
    with running(site.alias, "steady_queue", "--async", "--queues", "nothing") as worker:
        started = wait_for(lambda: Process.objects.exclude(id__in=known).first(), "the start of the process")
        browser.open(f"{PROCESSES}{started.id}/")
        browser.link("Stop this process").click()
        browser.wait_for_text(f"(PID {worker.process.pid} on")
        assert not worker.has_ended
        browser.fill("#sq-reason", "it moves to another machine")
        browser.button("Stop the process").click()

        browser.wait_for_text("is asked to stop.")
        assert worker.wait(WAIT_TIMEOUT_SECONDS) == 0
    browser.wait_for_text(f"There is no process {started.id}: it has stopped, or was pruned")
    assert all("410 (Gone)" in error for error in browser.errors())  # the browser's own words for the last refresh
    browser.open(PROCESSES)
    assert started.name not in browser.text


def test_a_dynamic_recurring_task_is_added_with_a_preview_and_edited(browser: Browser) -> None:
    key = f"weekly {uuid4().hex[:8]}"
    browser.open(RECURRING)
    browser.link("Add a recurring task").click()
    for field, text in {
        "key": key,
        "task_path": "tests.browser.project.tasks.quick",
        "schedule": "30 2 * * mom",
        "time_zone": "Europe/Berlin",
        "args": '["weekly"]',
    }.items():
        browser.fill(f"#id_{field}", text)
    browser.button("Preview").click()
    browser.wait_for_text("Nothing was saved: correct the form.")

    browser.fill("#id_schedule", "30 2 * * mon")
    browser.button("Preview").click()
    browser.wait_for_text("The form has no errors. Nothing is saved yet.")
    runs = [one.text for one in browser.all(".sq-timeline li")]
    assert len(runs) == 5
    assert all(run.startswith("Mon ") and " 02:30:00 CE" in run for run in runs)
    assert not RecurringTask.objects.filter(key=key).exists()

    browser.button("Save").click()
    browser.wait_for_text("It was added.")
    saved = RecurringTask.objects.get(key=key)
    assert (saved.schedule, saved.time_zone, saved.static) == ("30 2 * * mon", "Europe/Berlin", False)

    browser.link("Edit").click()
    browser.fill("#id_schedule", "@every 300")
    browser.button("Preview").click()
    browser.wait_for_text("The form has no errors. Nothing is saved yet.")
    saved.refresh_from_db()
    assert saved.schedule == "30 2 * * mon"
    browser.button("Save").click()
    browser.wait_for_text("It was changed.")
    saved.refresh_from_db()
    assert saved.schedule == "@every 300"
    assert "weekly" in saved.arguments


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
        tag, text = browser.run(FOCUSED)
        seen.append(text)
        if tag == "BUTTON" and text.startswith(action):
            assert has_visible_focus(browser, browser.driver.switch_to.active_element)
            return
    raise AssertionError(f"{action} was not reached: {seen}")


def has_visible_focus(browser: Browser, element: WebElement) -> bool:
    """Whether the focused element differs from itself without the focus."""
    focused = browser.run(LOOK, element)
    browser.run("arguments[0].blur()", element)
    return bool(focused != browser.run(LOOK, element))
