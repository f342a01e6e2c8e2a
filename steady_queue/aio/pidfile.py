"""Pidfile: one supervisor per file, and a file that tells its process id.

The holder keeps the file locked, and the kernel ends the lock with the process: a file that nobody has locked is stale,
whatever stands in it. Unless it was written by a program that does not lock: such a one must have started before the
file was written and be alive still.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from steady_queue.aio.identity import started_at
from steady_queue.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The kernel tells when a process started to a hundredth of a second, and the boot to a whole one.
INEXACT = 2.0


class Pidfile:
    """A file that this process holds until it is released, or ends."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = Path(path).absolute()
        self._descriptor: int | None = _take(self._file)
        # A fork that a task has made would keep the lock when this process has ended.
        os.register_at_fork(after_in_child=self._close)

    def release(self) -> None:
        """Remove the file; more than once does no harm."""
        if self._descriptor is None:
            return
        # Removed before it is unlocked: who opened it meanwhile finds that it is no longer the one at this path.
        with suppress(OSError):
            if os.stat(self._file).st_ino == os.fstat(self._descriptor).st_ino:
                self._file.unlink()
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def held(path: str | os.PathLike[str] | None) -> Iterator[Callable[[], None]]:
    """Hold the file for the length of the block, or refuse; None holds nothing. The value releases it earlier."""
    if path is None:
        yield lambda: None
        return
    pidfile = Pidfile(path)
    try:
        yield pidfile.release
    finally:
        pidfile.release()


def _take(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                if _is_locked_by_us(file, descriptor):
                    break
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    except OSError as error:
        raise ConfigurationError(f"the pidfile {file} cannot be written: {error.strerror}") from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _is_locked_by_us(file: Path, descriptor: int) -> bool:
    """Whether the file is ours now; False when it was removed meanwhile. Refuses when another holds it."""
    pid = _written(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigurationError(f"already running as process {pid or 'unknown'}, by the pidfile {file}") from None
    try:
        if os.stat(file).st_ino != os.fstat(descriptor).st_ino:
            return False
    except FileNotFoundError:
        return False
    if pid is not None and pid != os.getpid() and _may_have_written(pid, os.fstat(descriptor).st_mtime):
        raise ConfigurationError(
            f"process {pid}, named by the pidfile {file}, is alive; if it is not Steady Queue, remove the file"
        )
    return True


def _written(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() and int(text) > 0 else None


def _may_have_written(pid: int, written_at: float) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # alive, and somebody else's
    started = started_at(pid)
    return started is None or started <= written_at + INEXACT
