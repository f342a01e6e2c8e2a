"""Tasks in the browser: find them, retry them, edit their arguments, cancel them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from selenium.webdriver.common.by import By

from steady_queue.models import Job
from tests.browser.conditions import wait_for
from tests.browser.project import tasks
from tests.browser.samples import has_progress, wait_for_state

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

    from tests.browser.chromium import Browser

JOBS = "/admin/steady_queue/job/"

pytestmark = [
    pytest.mark.xdist_group("browser actions"),
    pytest.mark.parametrize("site", ["postgres"], indirect=True),
]


@pytest.fixture
def name() -> str:
    """A text in the arguments of the tasks of one test, by which the lists find them."""
    return f"order {uuid4().hex[:8]}"


def row_of(browser: Browser, job_id: str) -> WebElement:
    return browser.one(f"#sq-job-{job_id}")


def rows(browser: Browser) -> list[WebElement]:
    return browser.all("tr[id^=sq-job-]")


def open_failed(browser: Browser, text: str) -> None:
    """Open the list of failed tasks that have this text in their arguments, as a user does."""
    browser.open(JOBS)
    browser.link_beginning("Failed").click()
    add_filter(browser, "text", text)


def add_filter(browser: Browser, name: str, text: str) -> None:
    number = len(browser.all(".sq-chip"))
    browser.one(".sq-page summary").click()
    browser.fill(f"#sq-filter-{name}", text)
    browser.button("Filter").click()
    wait_for(lambda: len(browser.all(".sq-chip")) == number + 1, "the filter")


def test_filters_find_tasks_and_can_be_removed(browser: Browser, name: str) -> None:
    failed = tasks.fails.enqueue(name)
    wait_for_state(failed, "failed")

    open_failed(browser, name)
    assert [row.get_attribute("id") for row in rows(browser)] == [f"sq-job-{failed.id}"]
    assert "the mail server refused the message" in row_of(browser, failed.id).text

    add_filter(browser, "error", "ValueError")
    browser.wait_for_text("No task matches.")
    browser.one("[aria-label='Remove the filter Error class']").click()
    assert row_of(browser, failed.id)

    browser.one("[aria-label='Remove the filter Text in arguments']").click()
    wait_for(lambda: not browser.all(".sq-chip"), "the list without filters")
    assert "state=failed" in browser.path


def test_one_task_is_retried_and_the_filter_stays(browser: Browser, name: str) -> None:
    failed = tasks.fails.enqueue(name)
    wait_for_state(failed, "failed")
    open_failed(browser, name)

    row_of(browser, failed.id).find_element(By.CSS_SELECTOR, "button[value^='retry:']").click()
    browser.fill("#sq-reason", "the mail server is repaired")
    browser.button("Retry").click()

    browser.one(".messagelist")
    assert "state=failed" in browser.path
    assert name in browser.one(".sq-chip").text
    wait_for(lambda: has_attempts(failed.id, 2), "the second attempt")


def test_all_tasks_that_match_are_retried(browser: Browser, name: str) -> None:
    failed = [tasks.fails.enqueue(name, f"message {number}") for number in range(3)]
    other = tasks.fails.enqueue("another order")
    for task in (*failed, other):
        wait_for_state(task, "failed")
    open_failed(browser, name)

    browser.button("Retry all that match").click()
    browser.wait_for_text("Retry 3 tasks?")
    browser.button("Retry").click()
    browser.wait_for_text("3 tasks were handled.")

    for task in failed:
        wait_for(partial(has_attempts, task.id, 2), "the second attempt")
    assert not has_attempts(other.id, 2)


def test_a_task_is_retried_with_other_arguments(browser: Browser, name: str) -> None:
    failed = tasks.fails_unless.enqueue(name, is_valid=False)
    wait_for_state(failed, "failed")

    browser.open(f"{JOBS}{failed.id}/edit/")
    browser.fill("#sq-kwargs", '{"is_valid": tru}')
    browser.button("Retry with these arguments").click()
    assert "not retried" in browser.one(".sq-problem").text
    browser.fill("#sq-kwargs", '{"is_valid": true}')
    browser.button("Retry with these arguments").click()

    browser.wait_for_text("was retried with other arguments")
    wait_for_state(failed, "finished")


def test_a_running_task_is_cancelled(browser: Browser, name: str) -> None:
    running = tasks.runs_long.enqueue(name)
    wait_for_state(running, "running")
    browser.open(f"{JOBS}?state=running&text={name}")

    row_of(browser, running.id).find_element(By.CSS_SELECTOR, "button[value^='cancel:']").click()
    browser.button("Cancel").click()

    browser.one(".messagelist")
    wait_for_state(running, "cancelled")


def test_the_page_of_a_running_task_shows_its_progress_log_and_stack(browser: Browser, name: str) -> None:
    running = tasks.runs_long.enqueue(name)
    wait_for_state(running, "running")
    wait_for(lambda: has_progress(running), "the progress")
    browser.open(f"{JOBS}{running.id}/")
    assert "row 40" in browser.text
    assert f"{name} begins" in browser.text

    browser.button("Show stack").click()
    browser.wait_for_text("await asyncio.sleep(LONG_SECONDS)")
    running.cancel()


def test_the_page_of_a_task_does_not_show_secrets(browser: Browser) -> None:
    paid = tasks.pays.enqueue(12, card_token="4111-1111")
    wait_for_state(paid, "finished")
    browser.open(f"{JOBS}{paid.id}/")

    assert "card_token" in browser.text
    assert "4111" not in browser.driver.page_source


def test_an_unknown_task_leads_to_the_list_with_a_message(browser: Browser) -> None:
    browser.open(f"{JOBS}{uuid4()}/")

    assert browser.path == JOBS
    assert "There is no task" in browser.one(".messagelist").text


def has_attempts(job_id: str, number: int) -> bool:
    return bool(Job.objects.get(id=job_id).attempts >= number)
