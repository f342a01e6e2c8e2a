"""A site and a browser for all modules, a superuser, and a screenshot of each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.chromium import chromium
from tests.browser.site import running_site

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.browser.chromium import Browser
    from tests.browser.site import Site

FAILED = pytest.StashKey[bool]()
#: Waits of a page, but not the time in which the server has to answer, are 50 times shorter.
FASTER_TIMERS = """
const timer = setTimeout;
window.setTimeout = (call, delay) => timer(call, delay > 10000 ? delay : delay / 50);
"""


@pytest.fixture(scope="package")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A web server and a worker; the parameter is the database of the queue."""
    with running_site(request.param) as site:
        yield site


@pytest.fixture(scope="package")
def superuser() -> Iterator[str]:
    """The name of a superuser, which is also the password."""
    from django.contrib.admin.models import LogEntry
    from django.contrib.auth import get_user_model
    from django.contrib.sessions.models import Session

    users = get_user_model()
    users._default_manager.create_superuser("ada", password="ada")  # type: ignore[attr-defined]
    yield "ada"
    for model in (LogEntry, Session, users):
        model._default_manager.all().delete()


@pytest.fixture(scope="package")
def window(site: Site, superuser: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser that has logged in."""
    with chromium(tmp_path_factory.mktemp("screenshots")) as browser:
        browser.address = site.address
        browser.open("/admin/")
        browser.fill("#id_username", superuser)
        browser.fill("#id_password", superuser)
        browser.one("[type=submit]").click()
        browser.one("#user-tools")
        yield browser


@pytest.fixture
def fast_browser(browser: Browser) -> Iterator[Browser]:
    """The browser with pages that refresh every 100 milliseconds."""
    script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FASTER_TIMERS})
    yield browser
    browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


@pytest.fixture
def browser(window: Browser, site: Site, request: pytest.FixtureRequest) -> Iterator[Browser]:
    """The browser in its usual size; the console must have no errors at the end of the test."""
    window.show()
    window.errors()
    yield window
    if request.node.stash.get(FAILED, False):
        name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
        print(f"The page: {window.path}, kept as {window.screenshot(name)}\n{site.printed}")  # noqa: T201
    assert window.errors() == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the fixture see that the test has failed."""
    report = yield
    if report.when == "call" and report.failed:
        item.stash[FAILED] = True
    return report
