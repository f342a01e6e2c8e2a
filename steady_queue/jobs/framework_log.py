"""Whether a line of the framework's log would be emitted, checked before the line is built.

The framework logs the start and the end of every task. Django 6 sets the logger `django` to INFO, with a handler that
drops everything unless DEBUG: the level allows the line, and no handler emits it. So this module follows a record
through loggers, handlers and their filters. It takes about a microsecond and is done for each line: there is no cache
that a change of the configuration would have to clear.
"""

from __future__ import annotations

import logging
from types import FunctionType
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.log import AdminEmailHandler, RequireDebugFalse, RequireDebugTrue

from steady_queue.events.log_limits import SelectedLengthLimit
from steady_queue.jobs.compat import FRAMEWORK

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(FRAMEWORK)
#: The file of the standard library's own functions, as opposed to those with which a monitoring tool replaced them.
_LOGGING_FILE = logging.getLevelName.__code__.co_filename
#: The functions that were last found to be the standard library's.
_handle: object = None
_call_handlers: object = None
#: Where Django's settings cache what was read, until it is changed or overridden.
_settings_cache = vars(settings)


def would_emit(level: int, *, surely: bool = False) -> bool:
    """Whether a handler emits a line of this level. If that cannot be known: True, but False with `surely`."""
    if not logger.isEnabledFor(level):
        return False
    if logger.filters and (passes := _passes(logger.filters)) is not True:
        return passes is None and not surely
    kind = type(logger)
    if not (kind.handle is _handle and kind.callHandlers is _call_handlers) and not _is_standard(kind):
        return True
    found = False
    current: logging.Logger | None = logger
    while current is not None:
        for handler in current.handlers:
            found = True
            if level >= handler.level and _emits(handler, surely):
                return True
        current = current.parent if current.propagate else None
    last = logging.lastResort
    return not found and last is not None and level >= last.level and _emits(last, surely)


def _emits(handler: logging.Handler, surely: bool) -> bool:
    """Whether the handler emits a record of sufficient level; with `surely`, only if that is certain."""
    kind = type(handler)
    if kind.handle is not logging.Handler.handle:
        return kind.handle is not logging.NullHandler.handle
    is_usual = kind.filter is logging.Handler.filter and not ("handle" in vars(handler) or "filter" in vars(handler))
    if not is_usual:
        return not surely
    if handler.filters and (passes := _passes(handler.filters)) is not True:
        return passes is None and not surely
    # Django sends no mail without recipients, and reports no failure to send.
    return kind is not AdminEmailHandler or (bool(settings.ADMINS) and not surely)


def _passes(filters: Sequence[object]) -> bool | None:
    """Whether records pass the filters; None if one of them is unknown, which may also record what it sees."""
    for one in filters:
        kind = type(one)
        if kind is RequireDebugTrue or kind is RequireDebugFalse:
            # Read from the cache of LazySettings: access by attribute would double the cost.
            if (is_debugging := _settings_cache.get("DEBUG")) is None:
                is_debugging = settings.DEBUG
            if bool(is_debugging) is (kind is RequireDebugFalse):
                return False
        elif kind is not SelectedLengthLimit:
            return None
    return True


def _is_standard(kind: type[logging.Logger]) -> bool:
    """Whether records go to handlers only. Monitoring tools replace these methods to receive the records."""
    pair = kind.handle, kind.callHandlers
    if all(type(one) is FunctionType and one.__code__.co_filename == _LOGGING_FILE for one in pair):
        global _handle, _call_handlers
        _handle, _call_handlers = pair
        return True
    return False
