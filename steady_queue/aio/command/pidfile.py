"""Pidfile: one supervisor per file; the file contains its process id.

The supervisor keeps the file locked, and the kernel releases the lock with the process: a file without a lock is stale,
whatever its content. The exception is a file written by a program that does not lock it: that program must have started
before the file was written, and still be alive.

Only a regular file that is empty or contains a process id is overwritten and removed. A symbolic link, a device, or a
file with another content was put at this path by a wrong setting, or by another user: it is refused.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from steady_queue.aio.process_identity import started_at
from steady_queue.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: How imprecise start times are: the kernel reports them in hundredths of a second after the boot, and that in seconds.
START_TIME_ERROR_SECONDS = 2.0
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
#: A number, or nothing: a crash of the machine may leave a file empty, or filled with NUL bytes.
_PIDFILE = re.compile(rb"\s{0,8}[0-9]{0,20}\s{0,8}|\0{0,32}")


class Pidfile:
    """A file that this process keeps locked until it releases the file, or exits."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = Path(path).absolute()
        self._descriptor: int | None = _lock(self._file)
        # A process that a task forked would keep the lock after this process has exited.
        os.register_at_fork(after_in_child=self._close)

    def release(self) -> None:
        """Remove the file; more than once does no harm."""
        if self._descriptor is None:
            return
        # Removed before it is unlocked: a process that opened it meanwhile finds another file, or none, at this path.
        with suppress(OSError):
            if _is_at(self._file, self._descriptor):
                self._file.unlink()
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def hold_pidfile(path: str | os.PathLike[str] | None) -> Iterator[Callable[[], None]]:
    """Keep the file locked during the block, or refuse; nothing for None. The value releases it earlier."""
    if path is None:
        yield lambda: None
        return
    pidfile = Pidfile(path)
    try:
        yield pidfile.release
    finally:
        pidfile.release()


def _lock(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = _open(file)
            try:
                if _is_locked_by_us(file, descriptor):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    except OSError as error:
        raise ConfigurationError(f"the pidfile {file} cannot be written: {error.strerror}") from error


def _open(file: Path) -> int:
    """Open the file without following a symbolic link, waiting for a pipe, or acquiring a terminal."""
    try:
        return os.open(file, _FLAGS, 0o644)
    except OSError:
        if file.is_symlink():
            raise _build_error(file, "is a symbolic link, which is not followed") from None
        raise


def _is_locked_by_us(file: Path, descriptor: int) -> bool:
    """Whether this process has locked the file; False if the file was removed meanwhile. Refuses if another has."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _build_error(file, "is not a regular file")
    pid = _pid_in(_content(descriptor))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigurationError(f"already running as process {pid or 'unknown'}, by the pidfile {file}") from None
    if not _is_at(file, descriptor):
        return False
    # Read again: the process that held the lock until now may have written to the file since.
    content = _content(descriptor)
    if os.fstat(descriptor).st_nlink > 1:
        raise _build_error(file, "has another name as well (a hard link)")
    if not _PIDFILE.fullmatch(content):
        raise _build_error(file, "holds something other than a process id")
    pid = _pid_in(content)
    if pid is not None and pid != os.getpid() and _may_have_written(pid, os.fstat(descriptor).st_mtime):
        raise ConfigurationError(
            f"process {pid}, named by the pidfile {file}, is alive; if it is not Steady Queue, remove the file"
        )
    return True


def _is_at(file: Path, descriptor: int) -> bool:
    """Whether the file at this path is the one that is open."""
    try:
        return os.path.samestat(os.lstat(file), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _build_error(file: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the pidfile {file} {why}, and is left as it is; "
        "remove it, or name another path in steady_queue.supervisor_pidfile"
    )


def _content(descriptor: int) -> bytes:
    """The first 64 bytes: more than any pidfile has, so a longer file does not match."""
    return os.pread(descriptor, 64, 0)


def _pid_in(content: bytes) -> int | None:
    text = content.strip()
    return int(text) if text.isdigit() and int(text) > 0 else None


def _may_have_written(pid: int, written_at: float) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # alive, and of another user
    started = started_at(pid)
    return started is None or started <= written_at + START_TIME_ERROR_SECONDS
