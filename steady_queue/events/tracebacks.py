"""Exceptions as text of a bounded length, for rows and for log lines: whatever an exception is, this must not fail."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_LENGTH = 2_000
TRACEBACK_LENGTH = 50_000
#: Exceptions of one chain or group whose texts are measured, and those of a chain that a stand-in keeps.
MEASURED, KEPT = 1_000, 5
#: Parts of a group that a stand-in keeps, of a group in a group, and so on.
PARTS = (15, 5)


def message_of(error: BaseException) -> str:
    """What the exception says of itself, whole."""
    try:
        return str(error)
    except BaseException:
        return "<the exception cannot be shown>"


def traceback_of(error: BaseException) -> str:
    """The traceback with everything that belongs to it, cut in the middle."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:
        text = f"{type(error).__qualname__}: {message_of(error)}\n"
    return cut(text, TRACEBACK_LENGTH)


def cut(text: str, length: int) -> str:
    """The text, its middle left out when it is too long: the end tells most."""
    if len(text) <= length:
        return text
    head = length // 3
    return f"{text[:head]}\n... {len(text) - length} characters left out ...\n{text[head - length :]}"


def is_oversized(error: BaseException) -> bool:
    """Whether its text, with those of its causes, notes and parts, is longer than a log line may be."""
    length = 0
    try:
        for number, one in enumerate(_together(error)):
            length += len(message_of(one)) + sum(map(len, _notes(one)))
            if length > TRACEBACK_LENGTH or number >= MEASURED:
                return True
    except BaseException:  # attributes of an exception may be anything
        return False
    return False


def stand_in(error: BaseException, depth: int = 0) -> Exception:
    """An exception to log instead of an oversized one.

    Same name and traceback; text, chain and parts of a group cut.
    """
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    stand = _named(error, names, depth)
    stand.__traceback__ = error.__traceback__
    if notes := "\n".join(_notes(error)):
        stand.add_note(cut(notes, MESSAGE_LENGTH))
    if depth < KEPT:
        if error.__cause__ is not None:
            stand.__cause__ = stand_in(error.__cause__, depth + 1)
        elif error.__context__ is not None and not error.__suppress_context__:
            stand.__context__ = stand_in(error.__context__, depth + 1)
    return stand


def _named(error: BaseException, names: dict[str, str], depth: int) -> Exception:
    """An exception of the same name, with its text cut; a group with some of its parts."""
    kind = type(error)
    if isinstance(error, BaseExceptionGroup) and depth < len(PARTS):
        kept = [stand_in(part, depth + 1) for part in error.exceptions[: PARTS[depth]]]
        group: type[ExceptionGroup[Exception]] = type(kind.__name__, (ExceptionGroup,), names)
        stand = group(cut(error.message, MESSAGE_LENGTH), kept)
        if left_out := len(error.exceptions) - len(kept):
            stand.add_note(f"{left_out} more sub-exceptions are left out")
        return stand
    single: type[Exception] = type(kind.__name__, (Exception,), names)
    return single(cut(message_of(error), MESSAGE_LENGTH))


def _together(error: BaseException) -> Iterator[BaseException]:
    """The exception, and all that its traceback would show with it."""
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
    # The text of another object may be anything, and making it may fail.
    return [note if isinstance(note, str) else "<note>" for note in notes]
