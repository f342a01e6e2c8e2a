"""What happens when the program that reads the output ends first, as `head` does."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: 128 and the number of SIGPIPE: the status of programs that this signal ends.
CLOSED_PIPE_STATUS = 141


@contextmanager
def ending_quietly() -> Iterator[None]:
    """End this process without a traceback if nothing reads its output any more."""
    try:
        try:
            yield
        finally:
            # The output to a pipe is buffered: otherwise Python would find out when the process ends.
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        sys.exit(CLOSED_PIPE_STATUS)


def _discard_output() -> None:
    """Let what is still in the buffers go nowhere: Python writes it, and reports an error, when the process ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
