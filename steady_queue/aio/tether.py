"""Tether: a child's end of the line to its supervisor. It says how it is, and notices when the supervisor is gone."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Tether:
    """The line ends when the supervisor does, whatever ended it: the kernel closes its end."""

    def __init__(self, line: socket.socket, *, every: float, state: Callable[[], Mapping[str, Any]]) -> None:
        self.is_held = True
        self._line = line
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

    def say(self, **words: Any) -> None:
        """Tell the supervisor; one that does not listen, or is gone, holds up nobody."""
        line = json.dumps(words).encode() + b"\n"
        with suppress(OSError):
            self._line.send(line, socket.MSG_DONTWAIT)

    async def run(self) -> None:
        """Say regularly how this process is: as long as its loop goes, it does."""
        while True:
            self.say(**self._state())
            await asyncio.sleep(self._every)
