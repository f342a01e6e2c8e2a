"""Chromium without a window, and what the tests do with it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.command import Command

from tests.browser.conditions import wait_for
from tests.support.servers.host import programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement

    Scheme = Literal["light", "dark"]

#: The width and the height of the window.
DESKTOP = (1280, 900)
PHONE = (390, 844)
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # it does not work as root and in many containers; the pages are the suite's own
    "--disable-gpu",
    "--disable-dev-shm-usage",  # /dev/shm is small in containers
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-default-browser-check",
    "--force-device-scale-factor=1",
)


class Browser:
    """A tab of Chromium."""

    def __init__(self, driver: Chrome, directory: Path) -> None:
        self.driver = driver
        #: Where screenshots are kept.
        self.directory = directory
        self.address = ""

    # -- pages --------------------------------------------------------------------------------------------------------

    def open(self, path: str) -> None:
        self.driver.get(f"{self.address}{path}")

    @property
    def path(self) -> str:
        """The path and the query of the page."""
        return self.driver.current_url.removeprefix(self.address)

    @property
    def text(self) -> str:
        """What the page shows."""
        return self.one("body").text

    @property
    def status(self) -> int:
        """The HTTP status of the page."""
        return int(self.run("return performance.getEntriesByType('navigation')[0].responseStatus"))

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """The element, waited for."""
        return wait_for(lambda: self.driver.find_element(By.CSS_SELECTOR, selector), selector)

    def link(self, text: str) -> WebElement:
        """The link with this text, waited for."""
        return wait_for(lambda: self.driver.find_element(By.LINK_TEXT, text), f"the link {text!r}")

    def link_beginning(self, text: str) -> WebElement:
        """The link whose text begins like this, waited for."""
        what = f"the link {text!r}"
        return wait_for(lambda: next((one for one in self.all("a") if one.text.startswith(text)), None), what)

    def button(self, text: str) -> WebElement:
        """The first button with this text or value that is shown, waited for."""

        def find() -> WebElement | None:
            found = self.all("button, input[type=submit]")
            labels = ((one, one.text.strip() or one.get_attribute("value")) for one in found if one.is_displayed())
            return next((one for one, label in labels if label == text), None)

        return wait_for(find, f"the button {text!r} on {self.path}")

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field."""
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def wait_for_text(self, text: str) -> None:
        wait_for(lambda: text in self.text, f"{text!r} on {self.path}")

    # -- how it is shown ----------------------------------------------------------------------------------------------

    def show(self, size: tuple[int, int] = DESKTOP, scheme: Scheme = "light") -> None:
        """Set the size of the window, and whether the user prefers light or dark pages."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        preference = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preference})

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    # -- scripts, errors and pictures ---------------------------------------------------------------------------------

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """The errors that the console has shown since the last call: exceptions, refused scripts, missing files."""
        entries = self.driver.execute(Command.GET_LOG, {"type": "browser"})["value"]
        messages = [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]
        return [message for message in messages if "/favicon.ico" not in message]  # the site has none

    def screenshot(self, name: str) -> Path:
        file = self.directory / f"{name}.png"
        self.driver.save_screenshot(str(file))
        return file


@contextmanager
def chromium(directory: Path) -> Iterator[Browser]:
    """A browser of its own, without cookies and history."""
    program, driver_program = programs("chromium", "chromedriver", packages="chromium chromium-driver")
    options = ChromeOptions()
    options.binary_location = program
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # The path is given, so Selenium downloads nothing.
    driver = Chrome(options, Service(driver_program))
    try:
        yield Browser(driver, directory)
    finally:
        driver.quit()
