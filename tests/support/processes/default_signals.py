"""The dispositions of signals that tests rely on, whatever the parent of the run has ignored or blocked.

`nohup` ignores HUP, and a script that starts a job in the background ignores INT. Every process inherits what is
ignored or blocked, and so would the programs under test, which then leave these signals ignored.
"""

from __future__ import annotations

import signal
from typing import Any

#: Python itself ignores these, and `subprocess` restores them.
IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


def restore_signals() -> None:
    """Set the signals of this process, and of those it starts, to the dispositions of a command in a terminal."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals() - IGNORED_BY_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _default(signal.Signals(number)))


def _default(number: signal.Signals) -> Any:
    if number == signal.SIGINT:
        return signal.default_int_handler
    if number == signal.SIGHUP:
        # A parent that ignores HUP wants this run to survive it; programs inherit no handler, they get the default.
        return _ignore
    return signal.SIG_DFL


def _ignore(*_: object) -> None:
    """Go on."""
