"""Wait for a condition, never for a time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.threads import closing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

#: Longer than anything that a test waits for, shorter than a test's timeout.
WAIT_TIMEOUT_SECONDS = 25.0


async def until(
    condition: Callable[[], bool | Awaitable[bool]], what: str = "", timeout_seconds: float = WAIT_TIMEOUT_SECONDS
) -> None:
    """Wait until the condition holds; fail after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        assert time.monotonic() < deadline, f"waited {timeout_seconds:.0f} s in vain: {what or condition}"
        await asyncio.sleep(0.01)


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Run sync code that uses Django's connections in a thread, which closes them; return the result."""
    return await asyncio.to_thread(closing, function, *args)
