"""Channel: the end of the socket that a child has, to its supervisor."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from uuid import UUID

#: How long the supervisor may take to hear which tasks are left to it, in seconds.
HAND_OVER = 1.0


class ParentChannel:
    """The line ends when the supervisor does, whatever ended it: the kernel closes its end."""

    def __init__(self, line: socket.socket, *, every: float, state: Callable[[], Mapping[str, Any]]) -> None:
        self.is_held = True
        self._line = line
        # A fork that a task has made is not to speak for this process, nor to keep its line open.
        os.register_at_fork(after_in_child=line.close)
        self._every = every
        self._state = state

    def watch(self, vanished: Callable[[], object]) -> None:
        """Call this when the supervisor has vanished; from a thread, so that a blocked loop cannot miss it."""
        threading.Thread(target=self._watch, args=(vanished,), name="steady-queue-tether", daemon=True).start()

    def _watch(self, vanished: Callable[[], object]) -> None:
        with suppress(OSError):
            while self._line.recv(4096):
                pass
        self.is_held = False
        vanished()

    def hand_over(self, claims: Collection[UUID]) -> bool:
        """Leave claims whose tasks still run to the supervisor; False when there is none any more."""
        if self.is_held:
            self.say(leaving=True, running_still=[claim.hex for claim in claims], within=HAND_OVER)
        return self.is_held

    def over(self, claim: UUID) -> None:
        """Say that a task has ended: it must not run again, whatever becomes of its outcome and of this process."""
        self.say(over=claim.hex)

    def say(self, *, within: float = 0.0, **words: Any) -> None:
        """Tell the supervisor; one that does not listen, or is gone, holds up nobody for longer than this."""
        # The first line break ends what may have been left unsaid before.
        rest = b"\n" + json.dumps(words).encode() + b"\n"
        deadline = time.monotonic() + within
        with suppress(OSError):
            while rest:
                try:
                    rest = rest[self._line.send(rest, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    left = deadline - time.monotonic()
                    if left <= 0 or not select.select([], [self._line], [], left)[1]:
                        return

    async def run(self) -> None:
        """Say regularly how this process is: as long as its loop goes, it does."""
        while True:
            self.say(**self._state())
            await asyncio.sleep(self._every)
