"""Each page of the dashboard in a browser: on each database, in light and dark, on a phone; and how pages refresh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import actions
from steady_queue.dashboard.page import NAVIGATION
from steady_queue.dashboard.site import PAGES
from tests.browser.accessibility import find_violations
from tests.browser.chromium import PHONE
from tests.browser.conditions import wait_for
from tests.browser.samples import enqueue_samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.chromium import Browser
    from tests.browser.site import Site

REGISTERED = {model._meta.model_name for model in PAGES}
LISTS = [f"/admin/steady_queue/{name}/" for name, _ in NAVIGATION if name in REGISTERED]

pytestmark = pytest.mark.xdist_group("browser")
on_each_database = pytest.mark.parametrize("site", ["postgres", "mariadb", "sqlite"], indirect=True)
on_sqlite = pytest.mark.parametrize("site", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("site", ["postgres"], indirect=True)


@pytest.fixture(scope="module")
def samples(site: Site) -> dict[str, str]:
    return enqueue_samples()


@on_each_database
@pytest.mark.parametrize("path", LISTS)
def test_a_page_opens(browser: Browser, samples: dict[str, str], path: str) -> None:
    browser.open(path)

    assert browser.status == 200
    browser.one(".sq-page")
    assert browser.one(".sq-navigation [aria-current=page]").get_attribute("href") == f"{browser.address}{path}"
    assert "owned" not in browser.driver.title


@on_postgres
@pytest.mark.parametrize("path", LISTS)
def test_a_page_is_accessible_in_light_and_dark(browser: Browser, samples: dict[str, str], path: str) -> None:
    browser.open(path)
    assert find_violations(browser) == []

    browser.show(scheme="dark")
    browser.open(path)  # colours change slowly on a page that is open
    assert find_violations(browser, "color-contrast") == []
    browser.screenshot(f"dark {path.strip('/').replace('/', ' ')}")


@on_postgres
@pytest.mark.parametrize("path", LISTS)
def test_a_page_fits_on_a_phone(browser: Browser, samples: dict[str, str], path: str) -> None:
    browser.show(PHONE)
    browser.open(path)

    assert browser.overflow() == 0


# -- refresh ----------------------------------------------------------------------------------------------------------

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


@on_sqlite
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


@on_sqlite
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


@on_sqlite
def test_a_page_says_that_the_server_does_not_answer_and_tries_again_later(queues: Browser) -> None:
    queues.run(COUNT_FETCHES + "window.isAway = true;")
    refresh(queues)
    wait_for(lambda: status(queues) == "The server does not answer. Next attempt in 10 s", "the problem")
    assert has_row(queues, "mail")

    queues.run("window.isAway = false;")
    refresh(queues)
    wait_for(lambda: status(queues) == "Refreshes every 5 s", "the next refresh")
