"""OS signals. TERM, INT and HUP request a graceful shutdown; QUIT, or a second INT, an immediate one.
What these requests do is in ../process/shutdown.py and ../supervisor/supervisor.py.

USR1 and USR2 have no meaning here. By default they would end the process in the middle of its tasks: so they are
reported and ignored, unless the project handles them, even in C as `faulthandler.register` does.
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
UNHANDLED = (signal.SIGUSR1, signal.SIGUSR2)


@contextmanager
def handle_signals(
    *,
    stop: Callable[[], object],
    quit_now: Callable[[], object],
    unhandled: Callable[[str], object],
    is_exiting: bool = False,
) -> Iterator[None]:
    """Call these functions from signal handlers during the block; `unhandled` with the name of USR1 or USR2.

    `is_exiting`: the process exits after the block, and another signal to stop must not change its exit status.

    These are not handlers of the event loop, which would not be called while a task blocks it. In a thread other than
    the main one, where Python delivers no signals, nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False
    owner = os.getpid()

    def handle(number: int, _: object) -> None:
        nonlocal interrupted
        if os.getpid() != owner:
            # A process forked by C code, without Python's fork hooks, inherited this handler: apply the default action.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif number == signal.SIGQUIT or (number == signal.SIGINT and interrupted):
            quit_now()
        elif number in UNHANDLED:
            unhandled(signal.Signals(number).name)
        else:
            interrupted = interrupted or number == signal.SIGINT
            stop()

    before = {number: signal.getsignal(number) for number in (*GRACEFUL, signal.SIGQUIT)}
    # The project may handle them.
    before.update({number: signal.SIG_DFL for number in UNHANDLED if _is_default(number)})
    for number, handler in before.items():
        # The parent process may have ignored a signal: nohup ignores HUP, and a shell's `&` INT. QUIT is never ignored.
        if handler is not signal.SIG_IGN or number in (signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, handle)
    try:
        with not_inherited(handle):
            yield
    finally:
        _restore(before, GRACEFUL if is_exiting else ())


def _is_default(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_DFL and not _is_caught(number)


def _is_caught(number: signal.Signals) -> bool:
    """Whether it has a handler, even one that Python does not know; False if the system does not report it."""
    try:
        with open("/proc/self/status", "rb") as status:
            (mask,) = (int(line.split()[1], 16) for line in status if line.startswith(b"SigCgt:"))
    except (OSError, ValueError, IndexError):
        return False
    return bool(mask >> (number - 1) & 1)


def _restore(before: Mapping[signal.Signals, Any], ignored: Collection[signal.Signals]) -> None:
    for number, handler in before.items():
        if number in ignored:
            signal.signal(number, signal.SIG_IGN)
        elif handler is not None:  # a handler that was not installed by Python code cannot be restored
            signal.signal(number, handler)
