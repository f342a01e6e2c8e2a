"""Waiting for a condition in tests without an event loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

from tests.support.wait import WAIT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
#: The page may be replaced between finding an element and reading it.
PASSING = (NoSuchElementException, StaleElementReferenceException)


def wait_for(condition: Callable[[], T | None], what: str, timeout_seconds: float = WAIT_TIMEOUT_SECONDS) -> T:
    """Wait until the condition is true, and return its value; fail after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            if value := condition():
                return value
        except PASSING:
            pass
        assert time.monotonic() < deadline, f"waited {timeout_seconds:.0f} s in vain for {what}"
        time.sleep(0.02)
