"""Waiting for a condition, never for a time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.threads import closing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

#: Longer than anything that is waited for takes, shorter than a test's timeout, in seconds.
WAIT_TIMEOUT_SECONDS = 25.0


async def until(
    condition: Callable[[], bool | Awaitable[bool]], what: str = "", timeout_seconds: float = WAIT_TIMEOUT_SECONDS
) -> None:
    """Return when the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        assert time.monotonic() < deadline, f"waited {timeout_seconds:.0f} s in vain: {what or condition}"
        await asyncio.sleep(0.01)


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """The result of sync code that uses Django's connections, from a thread that leaves none of them open."""
    return await asyncio.to_thread(closing, function, *args)
