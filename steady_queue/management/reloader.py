"""Reloader: `--reload`. Runs the command in a process of its own, and starts it again when the code has changed.

Running tasks get their time to finish before that, unlike with Django's own reloader, which ends a process where it is.
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

#: Says that this is the process that is started again, and by which descriptor it notices that its reloader is gone.
VARIABLE = "STEADY_QUEUE_RELOADED"
#: How often files are looked at, in seconds.
POLL_SECONDS = 0.5


class Reloader:
    """Ends with the status of the command, when that has ended well or was told to stop."""

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
        # The end that we keep is closed with this process, whatever ends it, and the other notices.
        theirs, _ours = os.pipe()
        while True:
            before = self._snapshot()
            self._process = self._start(theirs)
            if self._is_stopping:  # told so when there was nobody to pass it on to
                self._process.terminate()
            changed = self._wait_for_change(before)
            if changed is None and (self._is_stopping or self._exit_status() == 0):
                return self._exit_status()
            if changed is None:
                self._say(f"it ended with status {self._exit_status()}; it starts again when the code changes")
                changed = self._wait_for_change(before, until_end=False)
                if changed is None:
                    return self._exit_status()
            self._say(f"{changed} has changed: starting again")
            self._process.terminate()
            status = self._exit_status()
            if self._is_stopping:
                return status

    def _start(self, line: int) -> subprocess.Popen[bytes]:
        # In a session of its own: the terminal's Ctrl-C is passed on as well, and must not reach it twice.
        return subprocess.Popen(  # noqa: S603, the line that started this process itself
            command_line(),
            cwd=steady_queue.STARTED_IN or None,
            env={**os.environ, VARIABLE: str(line)},
            pass_fds=[line],
            start_new_session=True,
        )

    def _watch_apps(self) -> None:
        """Also files that this process has not imported: what is new, and what could not be imported."""
        with suppress(Exception):  # whatever is wrong with the code, the process that is started tells it
            autodiscover_modules("tasks")
        installed = tuple(Path(path) for path in sys.path if path.endswith(("site-packages", "dist-packages")))
        for app in apps.get_app_configs():
            path = Path(app.path)
            if not any(path.is_relative_to(place) for place in installed):
                self._files.watch_dir(path, "**/*.py")

    def _snapshot(self) -> Mapping[Path, float]:
        return dict(self._files.snapshot_files())

    def _wait_for_change(self, before: Mapping[Path, float], *, until_end: bool = True) -> Path | None:
        """The first file that differs, or is new; None when the process ends before that, or is told to stop."""
        while not self._is_stopping:
            if until_end and self._process is not None and self._process.poll() is not None:
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
        """How the process ended, as a shell would tell it."""
        assert self._process is not None
        status = self._process.wait()
        return status if status >= 0 else 128 - status

    def _say(self, text: str) -> None:
        self._out.write(f"steady_queue: {text}\n")
        self._out.flush()


def follow_reloader(environ: MutableMapping[str, str]) -> bool:
    """Whether a reloader has started this process, which then stops when that is gone."""
    line = environ.pop(VARIABLE, None)
    if line is None:
        return False
    os.set_inheritable(int(line), False)
    threading.Thread(target=_stop_after_reloader, args=(int(line),), name="steady-queue-reloader", daemon=True).start()
    return True


def _stop_after_reloader(line: int) -> None:
    os.read(line, 1)
    os.kill(os.getpid(), signal.SIGTERM)
