"""An exception as text that can be stored: whatever it is, this must not fail and must not be huge."""

from __future__ import annotations

import traceback

from steady_queue.store.outcome import ErrorReport

MESSAGE_LENGTH = 2_000
TRACEBACK_LENGTH = 50_000


def report_of(error: BaseException) -> ErrorReport:
    """The report of an exception."""
    kind = type(error)
    return ErrorReport(
        exception_class=_clean(f"{kind.__module__}.{kind.__qualname__}", 255),
        message=_clean(_text_of(error), MESSAGE_LENGTH),
        traceback=_clean(_traceback_of(error), TRACEBACK_LENGTH),
    )


def report(kind: type[BaseException], message: str) -> ErrorReport:
    """The report of an exception that was never raised."""
    path = f"{kind.__module__}.{kind.__qualname__}"
    return ErrorReport(path, _clean(message, MESSAGE_LENGTH), f"{path}: {_clean(message, MESSAGE_LENGTH)}\n")


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "<the exception cannot be shown>"


def _traceback_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:
        return f"{type(error).__qualname__}: {_text_of(error)}\n"


def _clean(text: str, length: int) -> str:
    """The text without what databases refuse, its middle left out when it is too long: the end tells most."""
    if len(text) > length:
        head = length // 3
        left_out = f"\n... {len(text) - length} characters left out ...\n"
        text = text[:head] + left_out + text[head - length :]
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
