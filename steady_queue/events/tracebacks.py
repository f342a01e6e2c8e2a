"""Formats exceptions with a bounded length, for rows and log lines. Must never raise: an exception can be anything."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_LENGTH = 2_000
TRACEBACK_LENGTH = 50_000
#: The exceptions of one chain or group whose messages are measured, and those of a chain that a stand-in keeps.
MAX_MEASURED, MAX_CHAIN = 1_000, 5
#: The sub-exceptions of a group that a stand-in keeps, by level of nesting.
MAX_SUB_EXCEPTIONS = (15, 5)


def message_of(error: BaseException) -> str:
    """The complete message of the exception."""
    try:
        return str(error)
    except BaseException:
        return "<the exception cannot be shown>"


def traceback_of(error: BaseException) -> str:
    """The traceback with causes, notes and sub-exceptions, truncated in the middle."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:
        text = f"{type(error).__qualname__}: {message_of(error)}\n"
    return cut(text, TRACEBACK_LENGTH)


def cut(text: str, length: int) -> str:
    """Truncate a string in the middle, because the end of a traceback is the most useful part."""
    if len(text) <= length:
        return text
    head = length // 3
    return f"{text[:head]}\n... {len(text) - length} characters left out ...\n{text[head - length :]}"


def is_oversized(error: BaseException) -> bool:
    """Whether the messages of an exception, its causes, notes and sub-exceptions are too long for a log line."""
    length = 0
    try:
        for number, one in enumerate(_related_exceptions(error)):
            length += len(message_of(one)) + sum(map(len, _notes(one)))
            if length > TRACEBACK_LENGTH or number >= MAX_MEASURED:
                return True
    except BaseException:  # attributes of an exception may be anything
        return False
    return False


def stand_in(error: BaseException, depth: int = 0) -> Exception:
    """Build an exception to log instead of an oversized one.

    It has the same name and traceback, with message, chain and sub-exceptions truncated.
    """
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    stand = _build_stand_in(error, names, depth)
    stand.__traceback__ = error.__traceback__
    if notes := "\n".join(_notes(error)):
        stand.add_note(cut(notes, MESSAGE_LENGTH))
    if depth < MAX_CHAIN:
        if error.__cause__ is not None:
            stand.__cause__ = stand_in(error.__cause__, depth + 1)
        elif error.__context__ is not None and not error.__suppress_context__:
            stand.__context__ = stand_in(error.__context__, depth + 1)
    return stand


def _build_stand_in(error: BaseException, names: dict[str, str], depth: int) -> Exception:
    """An exception of the same name with a truncated message; a group keeps some of its sub-exceptions."""
    kind = type(error)
    if isinstance(error, BaseExceptionGroup) and depth < len(MAX_SUB_EXCEPTIONS):
        kept = [stand_in(part, depth + 1) for part in error.exceptions[: MAX_SUB_EXCEPTIONS[depth]]]
        group: type[ExceptionGroup[Exception]] = type(kind.__name__, (ExceptionGroup,), names)
        stand = group(cut(error.message, MESSAGE_LENGTH), kept)
        if left_out := len(error.exceptions) - len(kept):
            stand.add_note(f"{left_out} more sub-exceptions are left out")
        return stand
    single: type[Exception] = type(kind.__name__, (Exception,), names)
    return single(cut(message_of(error), MESSAGE_LENGTH))


def _related_exceptions(error: BaseException) -> Iterator[BaseException]:
    """The exception, and every exception that its traceback includes."""
    waiting, seen = [error], {id(error)}
    while waiting:
        one = waiting.pop()
        yield one
        parts = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        context = None if one.__suppress_context__ else one.__context__
        for other in (one.__cause__, context, *parts):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)


def _notes(error: BaseException) -> list[str]:
    try:
        notes = getattr(error, "__notes__", None)
    except BaseException:  # an exception may have any `__getattr__`
        return []
    if not isinstance(notes, list):
        return []
    # A note may be any object, and converting it to a string may raise.
    return [note if isinstance(note, str) else "<note>" for note in notes]
