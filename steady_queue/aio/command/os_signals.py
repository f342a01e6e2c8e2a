"""Signals: how a process is told to stop. TERM, INT and HUP stop it gracefully; QUIT, or a second INT, at once.

USR1 and USR2 mean nothing. They would end a process that has not said what they mean, in the middle of its tasks: so
they are told of, and ignored; unless the project handles them, be it in C as `faulthandler.register` does.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from steady_queue.aio.command.fork_safety import not_inherited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

GRACEFUL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STRAY = (signal.SIGUSR1, signal.SIGUSR2)


@contextmanager
def obeyed(
    *,
    stop: Callable[[], object],
    quit_now: Callable[[], object],
    stray: Callable[[str], object],
    for_good: bool = False,
) -> Iterator[None]:
    """Call these from the handlers of signals, for the length of the block; `stray` with the name of another one.

    `for_good`: the process ends after it, and one more signal to stop must not change its exit status.

    Not handlers of the event loop: those would not be called while a task blocks it. In another thread than the main
    one, where Python delivers no signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False
    owner = os.getpid()

    def obey(number: int, _: object) -> None:
        nonlocal interrupted
        if os.getpid() != owner:
            # A fork made by C code, without Python's fork hooks, has inherited this handler: apply the default action.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif number == signal.SIGQUIT or (number == signal.SIGINT and interrupted):
            quit_now()
        elif number in STRAY:
            stray(signal.Signals(number).name)
        else:
            interrupted = interrupted or number == signal.SIGINT
            stop()

    before = {number: signal.getsignal(number) for number in (*GRACEFUL, signal.SIGQUIT)}
    # The user may have said what they mean.
    before.update({number: signal.SIG_DFL for number in STRAY if _means_nothing(number)})
    for number, handler in before.items():
        # Ignored by whoever started us: nohup does so with HUP, a shell's `&` with INT. By QUIT only we can be meant.
        if handler is not signal.SIG_IGN or number in (signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, obey)
    try:
        with not_inherited(obey):
            yield
    finally:
        _put_back(before, GRACEFUL if for_good else ())


def _means_nothing(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_DFL and not _is_caught(number)


def _is_caught(number: signal.Signals) -> bool:
    """Whether it has a handler, also one that Python does not know of; False where the system does not tell."""
    try:
        with open("/proc/self/status", "rb") as status:
            (mask,) = (int(line.split()[1], 16) for line in status if line.startswith(b"SigCgt:"))
    except (OSError, ValueError, IndexError):
        return False
    return bool(mask >> (number - 1) & 1)


def _put_back(before: Mapping[signal.Signals, Any], ignored: Collection[signal.Signals]) -> None:
    for number, handler in before.items():
        if number in ignored:
            signal.signal(number, signal.SIG_IGN)
        elif handler is not None:  # one that was not installed by Python code cannot be put back
            signal.signal(number, handler)
