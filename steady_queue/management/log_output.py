"""Log handlers of the command, for projects that have not configured logging, and what a terminal needs."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from django.conf import settings
from django.utils.log import ServerFormatter

from steady_queue.aio.command.terminal import ClearingStream, Style, Terminal, can_redraw
from steady_queue.jobs.compat import FRAMEWORK, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LEVELS = {0: logging.WARNING, 1: logging.INFO}
#: The formatters that `--log-format json` replaces; a formatter of the project's own stays.
PLAIN_FORMATTERS = (type(None), logging.Formatter, ServerFormatter)


def find_status_terminal(options: Mapping[str, Any], log_format: str, style: Style) -> Terminal | None:
    """The terminal that shows the status line; None if stderr is no terminal, with `-v 0`, and if logs are JSON."""
    is_wanted = log_format == "text" and options["verbosity"] >= 1
    if not is_wanted or not can_redraw(sys.stderr, os.environ):
        return None
    return Terminal(sys.stderr, style)


def configure_logging(verbosity: int, log_format: str, style: Style = Style()) -> None:  # noqa: B008, immutable
    """Write the log of the runtime to stderr, unless the project has configured that logger."""
    logger = logging.getLogger("steady_queue")
    if logger.hasHandlers():
        return
    logger.addHandler(_handler(log_format, style))
    logger.setLevel(LEVELS.get(verbosity, logging.DEBUG))
    # Formats what unconfigured loggers write, such as Django's with the traceback of a failed task.
    logging.lastResort = _handler(log_format, style)
    logging.lastResort.setLevel(logging.WARNING)
    _configure_framework_log(verbosity, log_format, style)
    if log_format == "json":
        _format_all_as_json()


def _configure_framework_log(verbosity: int, log_format: str, style: Style) -> None:
    """Show failed tasks, and with -v 2 the start and the end of each task, where the framework's log is not shown."""
    tasks = logging.getLogger(FRAMEWORK)
    if tasks.handlers or (NATIVE and settings.DEBUG):  # Django shows this log only while DEBUG is True
        return
    if verbosity >= 2:
        tasks.addHandler(_handler(log_format, style))
        if not NATIVE:
            tasks.setLevel(logging.INFO)
    elif NATIVE and logging.lastResort is not None:
        tasks.addHandler(logging.lastResort)


def _handler(log_format: str, style: Style) -> logging.StreamHandler[IO[str]]:
    stream: Any = sys.stderr
    if can_redraw(stream, os.environ) and not isinstance(stream, ClearingStream):
        stream = ClearingStream(stream)
    handler: logging.StreamHandler[IO[str]] = logging.StreamHandler(stream)
    if log_format == "json":
        handler.setFormatter(JsonLines())
    elif style.is_coloured or can_redraw(sys.stderr, os.environ):
        handler.setFormatter(TerminalLines(style))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    return handler


# -- terminals --------------------------------------------------------------------------------------------------------


def clear_before_output() -> None:
    """Let everything that this process writes to a terminal clear the status line first: logs, and print() of tasks."""
    streams = {
        id(stream): ClearingStream(stream) for stream in (sys.stdout, sys.stderr) if can_redraw(stream, os.environ)
    }
    for handler in _console_handlers():
        if clearing := streams.get(id(handler.stream)):
            handler.setStream(clearing)
    sys.stdout = streams.get(id(sys.stdout), sys.stdout)
    sys.stderr = streams.get(id(sys.stderr), sys.stderr)


def _console_handlers() -> Iterator[logging.StreamHandler[Any]]:
    """The handlers that write to stdout or stderr."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and handler.stream in streams:
                yield handler


class TerminalLines(logging.Formatter):
    """Time of day, level and message: warnings are yellow, errors red, and the totals at the end bold."""

    def __init__(self, style: Style) -> None:
        super().__init__("%(message)s")
        self._colours = style

    def format(self, record: logging.LogRecord) -> str:
        style, text = self._colours, super().format(record)
        level = record.levelname
        if record.levelno >= logging.ERROR:
            level = style.red(level)
        elif record.levelno >= logging.WARNING:
            level = style.yellow(level)
        elif record.levelno < logging.INFO:
            level, text = style.dim(level), style.dim(text)
        if getattr(record, "event", None) == "CommandStopped":
            has_failed = isinstance(record.args, dict) and record.args.get("failed")
            text = style.yellow(text) if has_failed else style.bold(text)
        return f"{style.dim(time.strftime('%H:%M:%S', time.localtime(record.created)))} {level} {text}"


# -- JSON -------------------------------------------------------------------------------------------------------------


def _format_all_as_json() -> None:
    """Write JSON as well for what other loggers log, for warnings, and for exceptions that nothing catches."""
    for handler in _console_handlers():
        if type(handler.formatter) in PLAIN_FORMATTERS:
            handler.setFormatter(JsonLines())
    warnings = logging.getLogger("py.warnings")
    if not warnings.handlers and logging.lastResort is not None:
        # Without a handler of its own, captureWarnings would add one that writes nothing.
        warnings.addHandler(logging.lastResort)
    logging.captureWarnings(True)
    logger = logging.getLogger("steady_queue")
    uncaught = "an exception was not caught"
    sys.excepthook = lambda *error: logger.critical(uncaught, exc_info=error)
    threading.excepthook = lambda of: logger.critical(
        uncaught, exc_info=(of.exc_type, of.exc_value or of.exc_type(), of.exc_traceback)
    )


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the name and fields of the event, if it is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        if event := getattr(record, "event", None):
            line["event"] = event
            if isinstance(record.args, dict):
                line["fields"] = record.args
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)
