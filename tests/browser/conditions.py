"""Waiting for a condition in tests without an event loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, WebDriverException

from tests.support.wait import WAIT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
#: What Chromium's driver calls an unknown error if a page is replaced while it reads an element.
REPLACED = "does not belong to the document"


def wait_for(condition: Callable[[], T | None], what: str, timeout_seconds: float = WAIT_TIMEOUT_SECONDS) -> T:
    """Wait until the condition is true, and return its value; fail after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            if value := condition():
                return value
        except WebDriverException as error:
            if not _is_passing(error):
                raise
        assert time.monotonic() < deadline, f"waited {timeout_seconds:.0f} s in vain for {what}"
        time.sleep(0.02)


def _is_passing(error: WebDriverException) -> bool:
    """Whether the page was replaced between finding an element and reading it."""
    is_gone = isinstance(error, (NoSuchElementException, StaleElementReferenceException))
    return is_gone or REPLACED in str(error.msg)
