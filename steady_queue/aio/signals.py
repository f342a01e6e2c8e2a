"""Signals: how a process is told to stop. TERM, INT and HUP stop it gracefully; QUIT, or a second INT, at once."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRACEFUL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def obeyed(*, stop: Callable[[], object], quit_now: Callable[[], object], for_good: bool = False) -> Iterator[None]:
    """Call these from the handlers of signals, for the length of the block.

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
            # A fork that a task has made, with multiprocessing say, has inherited this handler. It is to end as ever.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif number == signal.SIGQUIT or (number == signal.SIGINT and interrupted):
            quit_now()
        else:
            interrupted = interrupted or number == signal.SIGINT
            stop()

    before = {number: signal.getsignal(number) for number in (*GRACEFUL, signal.SIGQUIT)}
    for number, handler in before.items():
        # Ignored by whoever started us: nohup does so with HUP, a shell's `&` with INT. By QUIT only we can be meant.
        if handler is not signal.SIG_IGN or number in (signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, obey)
    try:
        yield
    finally:
        for number, handler in before.items():
            if for_good and number in GRACEFUL:
                signal.signal(number, signal.SIG_IGN)
            elif handler is not None:  # one that was not installed by Python code cannot be put back
                signal.signal(number, handler)
