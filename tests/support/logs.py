"""Logging as tests configure and read it."""

from __future__ import annotations

import io
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def chain(name: str) -> list[logging.Logger]:
    """The logger, and those to which its records propagate."""
    loggers = [logging.getLogger(name)]
    while (parent := loggers[-1].parent) is not None:
        loggers.append(parent)
    return loggers


@contextmanager
def restored(*names: str) -> Iterator[None]:
    """Restore these loggers, their parents and the state of logging at the end."""
    loggers = {logger for name in names for logger in chain(name)}
    before = [(one, one.level, one.propagate, one.disabled, one.handlers[:], one.filters[:]) for one in loggers]
    last, disabled = logging.lastResort, logging.root.manager.disable
    try:
        yield
    finally:
        for logger, level, propagate, is_disabled, handlers, filters in before:
            logger.propagate, logger.disabled = propagate, is_disabled
            logger.handlers[:], logger.filters[:] = handlers, filters
            logger.setLevel(level)
        logging.lastResort = last
        logging.disable(disabled)


@contextmanager
def as_installed(*names: str) -> Iterator[None]:
    """The same, with logging as it is in a project that does not configure it: without the handlers of pytest."""
    with restored(*names):
        logging.root.handlers.clear()
        yield


class RecordsHandler(logging.Handler):
    """A handler that keeps records, and their formatted text."""

    def __init__(self, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self.records: list[logging.LogRecord] = []
        self.text = io.StringIO()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.text.write(self.format(record) + "\n")

    @property
    def lines(self) -> list[tuple[int, str]]:
        return [(record.levelno, record.getMessage()) for record in self.records]
