"""Each page of the dashboard in a browser: on each database, in light and dark, on a phone, with the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.dashboard.page import NAVIGATION
from steady_queue.monitoring.states import JobState
from tests.browser.accessibility import find_violations
from tests.browser.chromium import PHONE
from tests.browser.samples import SAMPLED, enqueue_samples

if TYPE_CHECKING:
    from tests.browser.chromium import Browser
    from tests.browser.site import Site

LISTS = [f"{name}/" for name, _ in NAVIGATION]
#: Further pages; in braces, names of samples. `tasks in each state` share a template with one that is listed here.
DETAILS = [
    "job/?state=failed",
    "job/?state=running",
    "job/{failed}/",
    "job/{running}/",
    "job/{blocked}/",
    "job/{failed}/edit/",
    "queue/reports/",
    "queue/reports/clear/",
    "process/{process}/",
    "recurringtask/task/?key=nightly+report",
    "recurringtask/history/?key=nightly+report",
    "recurringtask/calendar/",
    "recurringtask/add/",
]
#: Pages that differ from those above only in their rows.
SIMILAR = [*(f"job/?state={state}" for state in JobState), *(f"job/{{{state}}}/" for state in SAMPLED)]

pytestmark = pytest.mark.xdist_group("browser pages")
on_each_database = pytest.mark.parametrize("site", ["postgres", "mariadb", "sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("site", ["postgres"], indirect=True)


@pytest.fixture(scope="module")
def samples(site: Site) -> dict[str, str]:
    return enqueue_samples()


def open_page(browser: Browser, page: str, samples: dict[str, str]) -> None:
    browser.open(f"/admin/steady_queue/{page.format(**samples)}")
    assert browser.status == 200
    assert browser.path == f"/admin/steady_queue/{page.format(**samples)}", browser.text
    assert browser.one(".sq-page").is_displayed()


@on_each_database
@pytest.mark.parametrize("page", LISTS)
def test_a_page_of_the_navigation_opens(browser: Browser, samples: dict[str, str], page: str) -> None:
    open_page(browser, page, samples)

    assert browser.one(".sq-navigation [aria-current=page]").get_attribute("href") == browser.driver.current_url


@on_each_database
def test_each_further_page_opens(browser: Browser, samples: dict[str, str]) -> None:
    for page in dict.fromkeys([*DETAILS, *SIMILAR]):
        open_page(browser, page, samples)
        assert browser.overflow() == 0, page
        assert browser.errors() == [], page


@on_postgres
@pytest.mark.parametrize("page", [*LISTS, *DETAILS])
def test_a_page_is_accessible_in_light_and_dark_and_fits_on_a_phone(
    browser: Browser, samples: dict[str, str], page: str
) -> None:
    open_page(browser, page, samples)
    assert find_violations(browser) == []
    browser.show(PHONE)
    assert browser.overflow() == 0

    browser.show(scheme="dark")
    open_page(browser, page, samples)  # again: colours change slowly on a page that is open
    assert find_violations(browser, "color-contrast") == []


@on_postgres
def test_hostile_text_is_shown_as_text(browser: Browser, samples: dict[str, str]) -> None:
    for page in ("overview/", "job/?state=failed", "job/{failed}/", "job/{failed}/edit/"):
        open_page(browser, page, samples)
        assert "owned" not in browser.driver.title
        assert "\u202e" not in browser.text, page
    assert "<script>" in str(browser.one("#sq-args").get_attribute("value"))
