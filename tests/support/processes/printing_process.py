"""A process whose output a thread reads while it runs, and a request to the server in it."""

from __future__ import annotations

import asyncio
import re
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

HOST = "127.0.0.1"


class PrintingProcess:
    """A process that runs; `printed` is all that it and its children have printed until now."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.printed = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed += line

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended and all that it printed was read."""
        return self.process.poll() is not None and not self._reader.is_alive()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout_seconds: float) -> int:
        """Wait until the process has ended and its output was read; return its exit status."""
        status = self.process.wait(timeout_seconds)
        self._reader.join(timeout_seconds)
        return status


async def fetch(port: int, path: str, *, version: str, timeout_seconds: float) -> tuple[int, str]:
    """The status and the body of a response, over a connection of its own; OSError if there was no response."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(f"GET {path} HTTP/{version}\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await asyncio.wait_for(reader.read(), timeout_seconds)).partition(b"\r\n\r\n")
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    found = re.match(rb"HTTP/1\.\d (\d{3})", head)
    if found is None:
        raise ConnectionError("the server closed the connection without a response")
    return int(found[1]), body.decode()
