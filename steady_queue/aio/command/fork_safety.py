"""Fork safety: a process that a task forks, for example with multiprocessing, is ended by the first signal.

It inherits our Python signal handlers: Python loses a signal that arrives before the fork is complete, and runs no
handler during a call of C code. So the signals are blocked during the fork, and reset to the default action in the
child before they are unblocked.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

#: Replaced, never changed: a fork may be made in any thread.
_handlers: tuple[Callable[..., object], ...] = ()
_is_registered = False


class _SavedMask(threading.local):
    """The signal mask of a thread before its fork; None while it makes none."""

    mask: Any = None


_saved = _SavedMask()


@contextmanager
def not_inherited(handler: Callable[..., object]) -> Iterator[None]:
    """Give the default action, in forks made during the block, to the signals that have this handler."""
    global _handlers
    _register()
    _handlers = (*_handlers, handler)
    try:
        yield
    finally:
        _handlers = tuple(known for known in _handlers if known is not handler)


def _register() -> None:
    global _is_registered
    if not _is_registered:
        _is_registered = True  # hooks cannot be removed
        os.register_at_fork(
            before=_block_signals, after_in_parent=_restore_mask, after_in_child=_reset_and_restore_mask
        )


def _block_signals() -> None:
    if _handlers:
        _saved.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def _restore_mask() -> None:
    mask, _saved.mask = _saved.mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _reset_and_restore_mask() -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) in _handlers:
            signal.signal(number, signal.SIG_DFL)
    _restore_mask()
