"""Each page of the dashboard in a browser: on each database, in light and dark, on a phone, with the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.dashboard.page import NAVIGATION
from steady_queue.dashboard.site import PAGES
from tests.browser.accessibility import find_violations
from tests.browser.chromium import PHONE
from tests.browser.samples import enqueue_samples

if TYPE_CHECKING:
    from tests.browser.chromium import Browser
    from tests.browser.site import Site

REGISTERED = {model._meta.model_name for model in PAGES}
LISTS = [f"/admin/steady_queue/{name}/" for name, _ in NAVIGATION if name in REGISTERED]

pytestmark = pytest.mark.xdist_group("browser")
on_each_database = pytest.mark.parametrize("site", ["postgres", "mariadb", "sqlite"], indirect=True)
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
