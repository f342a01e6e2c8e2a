"""An exception as text that can be stored: whatever it is, this must not fail and must not be huge."""

from __future__ import annotations

from steady_queue.events.tracebacks import MESSAGE_LENGTH, cut, message_of, traceback_of
from steady_queue.store.outcome import ErrorReport


def report_of(error: BaseException) -> ErrorReport:
    """The report of an exception."""
    kind = type(error)
    return ErrorReport(
        exception_class=_clean(cut(f"{kind.__module__}.{kind.__qualname__}", 255)),
        message=_clean(cut(message_of(error), MESSAGE_LENGTH)),
        traceback=_clean(traceback_of(error)),
    )


def report(kind: type[BaseException], message: str) -> ErrorReport:
    """The report of an exception that was never raised."""
    path = f"{kind.__module__}.{kind.__qualname__}"
    message = _clean(cut(message, MESSAGE_LENGTH))
    return ErrorReport(path, message, f"{path}: {message}\n")


def _clean(text: str) -> str:
    """The text without what databases refuse."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
