"""Channel: the child's end of the socket between a supervisor and its child."""

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

#: How long a child waits for its supervisor to accept a message that must not be lost.
SEND_SECONDS = 1.0


class ParentChannel:
    """Sends messages to the supervisor. The kernel closes the other end when the supervisor exits, for any reason."""

    def __init__(self, connection: socket.socket) -> None:
        self.is_open = True
        self._connection = connection
        self._state: Callable[[], Mapping[str, Any]] | None = None
        # A process that a task forks must not send messages for this one, nor keep the connection open.
        os.register_at_fork(after_in_child=connection.close)

    def watch(self, on_close: Callable[[], object]) -> None:
        """Call this when the supervisor has exited; in a thread, so that a blocked event loop cannot miss it."""
        threading.Thread(target=self._watch, args=(on_close,), name="steady-queue-channel", daemon=True).start()

    def _watch(self, on_close: Callable[[], object]) -> None:
        with suppress(OSError):
            while self._connection.recv(4096):
                pass
        self.is_open = False
        on_close()

    def send_unfinished(self, claims: Collection[UUID]) -> bool:
        """Leave the claims of tasks that still run to the supervisor; False if it has exited."""
        if self.is_open:
            unfinished = [claim.hex for claim in claims]
            self.send(is_stopping=True, unfinished=unfinished, within_seconds=SEND_SECONDS)
        return self.is_open

    def send_ended(self, claim: UUID) -> None:
        """The task has ended: it must not run again, even if its outcome is not written before this process exits."""
        self.send(ended_claim=claim.hex)

    def send(self, *, within_seconds: float = 0.0, **message: Any) -> None:
        """Send a message; a supervisor that does not read, or has exited, delays this process no longer than this."""
        # The first line break ends a message that may have been cut off before.
        rest = b"\n" + json.dumps(message).encode() + b"\n"
        deadline = time.monotonic() + within_seconds
        with suppress(OSError):
            while rest:
                try:
                    rest = rest[self._connection.send(rest, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    left = deadline - time.monotonic()
                    if left <= 0 or not select.select([], [self._connection], [], left)[1]:
                        return

    async def report(self, state: Callable[[], Mapping[str, Any]], every_seconds: float) -> None:
        """Send the state of this process regularly: the supervisor kills a child whose event loop sends nothing."""
        self._state = state
        while True:
            self.send(**state())
            await asyncio.sleep(every_seconds)

    def send_last_state(self, *, within_seconds: float = SEND_SECONDS) -> None:
        """This process exits: what it did since its last report must be counted."""
        if self._state is not None and self.is_open:
            self.send(**self._state(), within_seconds=within_seconds)
