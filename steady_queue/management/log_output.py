"""Logs: how the command shows its log lines where the project has not said where they go."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO

from django.conf import settings

from steady_queue.jobs.compat import FRAMEWORK, NATIVE

LEVELS = {0: logging.WARNING, 1: logging.INFO}
#: Back to the start of the line, and empty it: there may be a status.
CLEAR = "\r\x1b[K"


def configure_logging(verbosity: int, log_format: str, stream: IO[str] | None = None) -> None:
    """Let the log of the runtime be seen, unless the project has configured it."""
    logger = logging.getLogger("steady_queue")
    if logger.hasHandlers():
        return
    stream = stream or sys.stderr
    logger.addHandler(_handler(stream, log_format))
    logger.setLevel(LEVELS.get(verbosity, logging.DEBUG))
    # What loggers that nobody has configured would print bare, such as the framework's with a failed task's traceback.
    logging.lastResort = _handler(stream, log_format)
    logging.lastResort.setLevel(logging.WARNING)
    if NATIVE and not settings.DEBUG:
        # Django shows this log, where failed tasks are told of, only while debugging.
        tasks = logging.getLogger(FRAMEWORK)
        if not tasks.handlers:
            tasks.addHandler(logging.lastResort)


def _handler(stream: IO[str], log_format: str) -> logging.StreamHandler[IO[str]]:
    handler = TerminalHandler(stream) if stream.isatty() else logging.StreamHandler(stream)
    handler.setFormatter(
        JsonLines() if log_format == "json" else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    return handler


class TerminalHandler(logging.StreamHandler[IO[str]]):
    """Removes a status line before it writes."""

    def format(self, record: logging.LogRecord) -> str:
        return CLEAR + super().format(record)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the event with its fields where it is one."""

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
