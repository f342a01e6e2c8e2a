"""A bell that wakes a sleeping service."""

from __future__ import annotations

import asyncio


class Bell:
    """Rung any number of times, it wakes its one listener once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Sleep until it rings, at most so long; True when it rang."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True
