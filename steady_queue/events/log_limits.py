"""Bounds the length of log lines: an exception of 50 MB is truncated in the rows, and must not be longer in the log."""

from __future__ import annotations

import logging
from typing import Any

from steady_queue.events.tracebacks import TRACEBACK_LENGTH, cut, is_oversized, stand_in


class LengthLimit(logging.Filter):
    """A logging filter that truncates oversized strings and replaces oversized exceptions by stand-ins."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None and (stand := self.stand_in(error)) is not None:
            record.exc_info = (type(stand), stand, stand.__traceback__)
        if isinstance(record.args, dict):
            record.args = {name: self._truncate(value) for name, value in record.args.items()}
        elif record.args:
            record.args = tuple(map(self._truncate, record.args))
        return True

    def stand_in(self, error: BaseException) -> BaseException | None:
        """The exception to log instead of `error`; None to log `error` itself."""
        return stand_in(error) if is_oversized(error) else None

    def _truncate(self, value: Any) -> Any:
        if isinstance(value, str):
            return cut(value, TRACEBACK_LENGTH)
        if isinstance(value, BaseException):
            return self.stand_in(value) or value
        return value


class SelectedLengthLimit(LengthLimit):
    """The filter for Django's logger of tasks: replaces only exceptions that are registered in `stand_ins`."""

    def __init__(self) -> None:
        super().__init__()
        self.stand_ins: dict[int, BaseException] = {}

    def stand_in(self, error: BaseException) -> BaseException | None:
        return self.stand_ins.get(id(error))

    def _truncate(self, value: Any) -> Any:
        return value
