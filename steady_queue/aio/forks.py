"""Forks: a process that a task forks, with multiprocessing say, ends by the first signal that tells it to.

It inherits our signal handlers, which are Python code: Python forgets a signal that comes before the fork is complete,
and runs no handler while the fork is inside a call of C code. So these signals are held back during the fork, and in
the child they get the default action before they are let in.
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


class _Held(threading.local):
    """The signal mask of a thread before its fork; None while it makes none."""

    mask: Any = None


_held = _Held()


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


_is_registered = False


def _register() -> None:
    global _is_registered
    if not _is_registered:
        _is_registered = True  # hooks cannot be removed
        os.register_at_fork(before=_hold, after_in_parent=_let_in, after_in_child=_reset_and_let_in)


def _hold() -> None:
    if _handlers:
        _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def _let_in() -> None:
    mask, _held.mask = _held.mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _reset_and_let_in() -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) in _handlers:
            signal.signal(number, signal.SIG_DFL)
    _let_in()
