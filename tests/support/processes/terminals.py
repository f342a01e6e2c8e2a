"""A command whose output is a terminal, and what the terminal shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.wait import WAIT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


class Screen:
    """The text that a terminal received, read by a thread."""

    def __init__(self, descriptor: int, columns: int) -> None:
        self.text = ""
        self.columns = columns
        self._descriptor = descriptor

    def read(self) -> None:
        try:
            while data := os.read(self._descriptor, 65536):
                self.text += data.decode().replace("\r\n", "\n")
        except OSError:
            pass  # the last process that had it open has ended

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def close(self) -> None:
        """Close the terminal, and replace its descriptor by an empty file."""
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), self._descriptor)

    @property
    def lines(self) -> list[str]:
        return render(self.text, self.columns)

    @property
    def statuses(self) -> list[str]:
        """Every status line that was drawn, without its colours."""
        drawn = re.findall(r"\r\x1b\[K([^\r\n]+)\r", self.text)
        return [text for line in drawn if "/s" in (text := re.sub(r"\x1b\[[\d;]*m", "", line)) or " · " in text]


def render(text: str, columns: int) -> list[str]:
    """The lines that a terminal shows after this output, without colours; it wraps lines that are too long."""
    lines: list[list[str]] = [[]]
    column = 0
    for part in re.findall(r"\x1b\[[\d;]*[A-Za-z]|.", text, re.DOTALL):
        if part == "\n":
            lines.append([])
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            del lines[-1][column:]
        elif not part.startswith("\x1b"):
            if column == columns:
                lines.append([])
                column = 0
            lines[-1][column : column + 1] = part
            column += 1
    return ["".join(line).rstrip() for line in lines]


@contextmanager
def on_a_terminal(
    command: Sequence[str], *, cwd: Path, environ: Mapping[str, str], columns: int = 100
) -> Iterator[tuple[subprocess.Popen[bytes], Screen]]:
    """The command, whose stdout and stderr are a terminal of this width."""
    ours, theirs = pty.openpty()
    screen = Screen(ours, columns)
    screen.resize(columns)
    reader = threading.Thread(target=screen.read)
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        reader.start()
        try:
            yield process, screen
        finally:
            process.kill()
            process.wait()
            reader.join(WAIT_TIMEOUT_SECONDS)
            os.close(ours)
