"""`--reload`: runs the command in a child process, and restarts it when the code changes.

Running tasks may finish before the restart. Django's own reloader ends a process immediately.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from django.apps import apps
from django.utils.autoreload import StatReloader
from django.utils.module_loading import autodiscover_modules

import steady_queue
from steady_queue.aio.supervisor.child import command_line

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from types import FrameType

#: The environment variable of the child: the file descriptor by which it detects that the reloader has exited.
VARIABLE = "STEADY_QUEUE_RELOADED"
#: The interval at which the files are checked for changes.
POLL_SECONDS = 0.5


class Reloader:
    """Returns the exit status of the command when it has succeeded or was asked to stop."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._files = StatReloader()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    def run(self) -> int:
        self._watch_apps()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores HUP
                signal.signal(number, self._forward_signal)
        # The kernel closes our end when this process ends for any reason, and the child detects that.
        child_end, _our_end = os.pipe()
        while True:
            before = self._snapshot()
            self._process = self._start(child_end)
            if self._is_stopping:  # a signal arrived before there was a process to forward it to
                self._process.terminate()
            changed = self._wait_for_change(before)
            if changed is None and (self._is_stopping or self._exit_status() == 0):
                return self._exit_status()
            if changed is None:
                self._say(f"the command exited with status {self._exit_status()}; it restarts when the code changes")
                changed = self._wait_for_change(before, until_exit=False)
                if changed is None:
                    return self._exit_status()
            self._say(f"{changed} changed: restarting")
            self._process.terminate()
            status = self._exit_status()
            if self._is_stopping:
                return status

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        # In its own session: this process forwards Ctrl-C, which must not reach the child twice.
        return subprocess.Popen(  # noqa: S603, the command line of this process
            command_line(),
            cwd=steady_queue.STARTED_IN or None,
            env={**os.environ, VARIABLE: str(descriptor)},
            pass_fds=[descriptor],
            start_new_session=True,
        )

    def _watch_apps(self) -> None:
        """Also watch files that this process has not imported: new files, and files that could not be imported."""
        with suppress(Exception):  # the child reports errors in the code
            autodiscover_modules("tasks")
        installed = tuple(Path(path) for path in sys.path if path.endswith(("site-packages", "dist-packages")))
        for app in apps.get_app_configs():
            path = Path(app.path)
            if not any(path.is_relative_to(place) for place in installed):
                self._files.watch_dir(path, "**/*.py")

    def _snapshot(self) -> Mapping[Path, float]:
        return dict(self._files.snapshot_files())

    def _wait_for_change(self, before: Mapping[Path, float], *, until_exit: bool = True) -> Path | None:
        """The first file that is changed or new; None if the child exits before that, or after a signal to stop."""
        while not self._is_stopping:
            if until_exit and self._process is not None and self._process.poll() is not None:
                return None
            for path, changed_at in self._snapshot().items():
                if before.get(path) != changed_at:
                    return path
            time.sleep(POLL_SECONDS)
        return None

    def _forward_signal(self, number: int, _: FrameType | None) -> None:
        self._is_stopping = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _exit_status(self) -> int:
        """The exit status of the child, as a shell reports it."""
        assert self._process is not None
        status = self._process.wait()
        return status if status >= 0 else 128 - status

    def _say(self, text: str) -> None:
        self._out.write(f"steady_queue: {text}\n")
        self._out.flush()


def follow_reloader(environ: MutableMapping[str, str]) -> bool:
    """Whether a reloader has started this process. If so, this process stops when the reloader exits."""
    descriptor = environ.pop(VARIABLE, None)
    if descriptor is None:
        return False
    os.set_inheritable(int(descriptor), False)
    threading.Thread(
        target=_stop_after_reloader, args=(int(descriptor),), name="steady-queue-reloader", daemon=True
    ).start()
    return True


def _stop_after_reloader(descriptor: int) -> None:
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
