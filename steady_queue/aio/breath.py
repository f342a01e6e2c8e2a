"""Breath: long computing in slices, between which others go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steady_queue.aio.timing import Clock

#: After so much computing others may go on, in seconds.
SLICE = 0.005


class Breath:
    """Taken often; it costs nothing until a slice is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken = clock.monotonic()

    async def take(self) -> None:
        """Let others go on, if they have waited for a while."""
        if self._clock.monotonic() - self._taken > SLICE:
            await asyncio.sleep(0)
            self._taken = self._clock.monotonic()
