"""Log handlers of the command, for projects that have not configured logging."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO

from django.conf import settings

from steady_queue.jobs.compat import FRAMEWORK, NATIVE

LEVELS = {0: logging.WARNING, 1: logging.INFO}
#: Returns to the start of the line and clears it, because it may show the status.
CLEAR = "\r\x1b[K"


def configure_logging(verbosity: int, log_format: str, stream: IO[str] | None = None) -> None:
    """Write the log of the runtime to `stream`, unless the project has configured that logger."""
    logger = logging.getLogger("steady_queue")
    if logger.hasHandlers():
        return
    stream = stream or sys.stderr
    logger.addHandler(_handler(stream, log_format))
    logger.setLevel(LEVELS.get(verbosity, logging.DEBUG))
    # Formats what unconfigured loggers write, such as Django's with the traceback of a failed task.
    logging.lastResort = _handler(stream, log_format)
    logging.lastResort.setLevel(logging.WARNING)
    if NATIVE and not settings.DEBUG:
        # Django writes this log, which has the failed tasks, only while DEBUG is True.
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
    """Clears the status line before it writes."""

    def format(self, record: logging.LogRecord) -> str:
        return CLEAR + super().format(record)


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
