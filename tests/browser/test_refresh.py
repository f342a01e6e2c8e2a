"""How pages refresh in the browser while tasks run."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import actions
from tests.browser.chromium import PHONE
from tests.browser.conditions import wait_for
from tests.browser.project import tasks
from tests.browser.samples import wait_for_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.chromium import Browser
    from tests.browser.site import Site

OVERVIEW = "/admin/steady_queue/overview/"
QUEUES = "/admin/steady_queue/queue/"
#: Replies of the server are counted, and fail if a test wants them to.
COUNT_FETCHES = """
window.fetches = 0;
const real = window.fetch;
window.fetch = (...args) => {
    window.fetches += 1;
    return window.isAway ? Promise.reject(new TypeError("away")) : real(...args);
};
"""
HIDE = "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
#: What a browser does when a tab is shown or hidden: the page refreshes at once if it is shown.
CHANGE_VISIBILITY = "document.dispatchEvent(new Event('visibilitychange'));"

pytestmark = [
    pytest.mark.xdist_group("browser actions"),
    pytest.mark.parametrize("site", ["postgres"], indirect=True),
]


def state_count(browser: Browser, state: str) -> int:
    """The number of tasks in a state, as the overview shows it."""
    counts = [one.text.split() for one in browser.all("#sq-states li")]
    return next(int(number) for number, name in counts if name == state)


def test_the_overview_changes_by_itself_while_tasks_run(fast_browser: Browser) -> None:
    browser = fast_browser
    browser.open(OVERVIEW)
    finished, failed = state_count(browser, "finished"), state_count(browser, "failed")
    browser.run("window.isSamePage = true")

    for number in range(3):
        tasks.quick.enqueue(f"live {number}")
    tasks.fails.enqueue("live")

    wait_for(lambda: state_count(browser, "finished") == finished + 3, "3 finished tasks")
    wait_for(lambda: state_count(browser, "failed") == failed + 1, "a failed task")
    assert "failed in the last day" in browser.one("#sq-attention").text
    assert browser.run("return window.isSamePage"), "the page was loaded again"

    browser.button("Mark failures as seen").click()
    wait_for(lambda: "failed in the last day" not in browser.one("#sq-attention").text, "the failures to be seen")


def test_the_page_of_a_task_loses_its_buttons_and_gets_a_result_when_the_task_ends(fast_browser: Browser) -> None:
    browser = fast_browser
    later = tasks.quick.using(run_after=timedelta(hours=1)).enqueue("later")
    browser.open(f"/admin/steady_queue/job/{later.id}/")
    browser.run("window.isSamePage = true")
    assert browser.all("#sq-job-actions button")
    assert not browser.all("#sq-result")

    actions.run_now(later.id)

    wait_for(lambda: browser.all("#sq-result"), "the result")
    assert not browser.all("#sq-job-actions")
    assert "Ended" in browser.one("#sq-facts").text
    assert browser.run("return window.isSamePage"), "the page was loaded again"


def test_the_overview_does_not_refresh_in_a_hidden_tab(fast_browser: Browser, site: Site) -> None:
    browser = fast_browser

    def requests() -> int:
        return site.server.printed.count(f'"GET {OVERVIEW} ')

    browser.open(OVERVIEW)
    tab, before = browser.driver.current_window_handle, requests()
    wait_for(lambda: requests() >= before + 3, "three refreshes")

    browser.driver.switch_to.new_window("tab")
    before = requests()
    later = tasks.quick.using(run_after=timedelta(seconds=1)).enqueue("hidden")
    wait_for_state(later, "finished")
    assert requests() <= before + 1, "it still refreshes"  # one may have been under way

    browser.driver.close()
    browser.driver.switch_to.window(tab)
    before = requests()
    wait_for(lambda: requests() > before, "a refresh")


@pytest.fixture
def queues(browser: Browser, site: Site) -> Iterator[Browser]:
    """The list of queues, on a screen that is narrower than its table."""
    actions.pause("mail")
    browser.show(PHONE)
    browser.open(QUEUES)
    yield browser
    browser.run("localStorage.clear()")
    for name in ("a first queue", "mail"):
        actions.resume(name)


def refresh(browser: Browser) -> None:
    browser.run(CHANGE_VISIBILITY)


def has_row(browser: Browser, name: str) -> bool:
    return bool(
        browser.run("return [...document.querySelectorAll('tbody th')].some(th => th.innerText === arguments[0])", name)
    )


def status(browser: Browser) -> Any:
    return browser.run("return document.querySelector('.sq-refresh span').innerText")


def test_focus_scroll_position_and_selection_stay_when_a_page_refreshes(queues: Browser) -> None:
    queues.run("document.querySelector('[id=sq-queue-mail] button').focus()")
    queues.run("document.querySelector('.sq-scroll').scrollLeft = 40")
    queues.run("getSelection().selectAllChildren(document.querySelector('[id=sq-queue-mail] th'))")

    actions.pause("a first queue")
    refresh(queues)
    wait_for(lambda: has_row(queues, "a first queue"), "the new queue")

    assert queues.run("return document.activeElement.closest('tr').id") == "sq-queue-mail"
    assert queues.run("return document.querySelector('.sq-scroll').scrollLeft") == 40
    assert queues.run("return String(getSelection()).trim()") == "mail"


def test_a_page_does_not_refresh_while_it_is_paused_or_hidden(queues: Browser) -> None:
    assert status(queues) == "Refreshes every 5 s"
    queues.run(COUNT_FETCHES)
    count_after_turn = "setTimeout(() => arguments[arguments.length - 1](window.fetches), 0)"

    queues.run(HIDE, True)
    refresh(queues)
    assert queues.driver.execute_async_script(count_after_turn) == 0

    queues.run(HIDE, False)
    refresh(queues)
    wait_for(lambda: queues.run("return window.fetches") == 1, "the refresh")

    queues.button("Pause").click()
    queues.open(QUEUES)  # the choice is remembered
    assert status(queues) == "Refresh is paused"
    actions.pause("a first queue")
    refresh(queues)
    assert not has_row(queues, "a first queue")

    queues.button("Continue").click()
    wait_for(lambda: has_row(queues, "a first queue"), "the new queue")
    assert status(queues) == "Refreshes every 5 s"


def test_a_page_says_that_the_server_does_not_answer_and_tries_again_later(queues: Browser) -> None:
    queues.run(COUNT_FETCHES + "window.isAway = true;")
    refresh(queues)
    wait_for(lambda: status(queues) == "The server does not answer. Next attempt in 10 s", "the problem")
    assert has_row(queues, "mail")

    queues.run("window.isAway = false;")
    refresh(queues)
    wait_for(lambda: status(queues) == "Refreshes every 5 s", "the next refresh")
