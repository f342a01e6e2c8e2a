"""Arguments as readable text, with secrets redacted (see redaction.py), of a limited length."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from steady_queue import arguments
from steady_queue.monitoring.jobs.cut_json import load_beginning
from steady_queue.monitoring.jobs.redaction import positional_names, redact, redact_positional

#: Characters of stored arguments that are parsed, of one argument, and of all in a list.
PARSED_CHARACTERS, ARGUMENT_CHARACTERS, SHORT_CHARACTERS = 200_000, 10_000, 160
_UNREADABLE = "(not readable)"
#: The error is not shown: it may contain a part of the text, and so a secret.
_PROBLEM = "they are damaged, or were written by another version of Steady Queue"


class ArgumentText(NamedTuple):
    """One argument: the name of its parameter, if it is known, and its value as JSON on several lines."""

    name: str
    text: str
    is_cut: bool = False


class ArgumentTexts(NamedTuple):
    """All arguments of a task, or why they cannot be read."""

    values: tuple[ArgumentText, ...] = ()
    problem: str = ""
    #: Characters as stored.
    characters: int = 0
    #: Whether only a part was read.
    is_cut: bool = False


def describe_arguments(stored: str, task_path: str, length: int | None = None) -> ArgumentTexts:
    """Return the arguments as they are shown on the page of a task.

    `stored` may be only the beginning of a text with `length` characters.
    """
    length = len(stored) if length is None else length
    try:
        args, kwargs = load_redacted(stored[:PARSED_CHARACTERS], length, task_path)
    except ValueError:
        return ArgumentTexts(problem=_PROBLEM, characters=length)
    names = positional_names(task_path, len(args))
    values = [_argument(name or "", value) for name, value in zip(names, args, strict=True)]
    values += [_argument(name, value) for name, value in kwargs.items()]
    return ArgumentTexts(tuple(values), "", length, length > PARSED_CHARACTERS)


def short_text(stored: str, length: int, task_path: str, limit: int = SHORT_CHARACTERS) -> str:
    """Return the arguments on one line. `stored` may be only the beginning of a text with `length` characters."""
    try:
        args, kwargs = load_redacted(stored, length, task_path)
    except ValueError:
        return _UNREADABLE
    parts = [_on_one_line(value) for value in args]
    parts += [f"{name}={_on_one_line(value)}" for name, value in kwargs.items()]
    text = ", ".join(parts)
    is_cut = length > len(stored) or len(text) > limit
    return f"{text[: limit - 1]}…" if is_cut else text


def load_redacted(stored: str, length: int, task_path: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments as plain values without secrets; raises ValueError if they cannot be read."""
    text = stored
    if length > len(stored):
        try:
            text = json.dumps(_fill_envelope(load_beginning(stored)))
        except RecursionError:
            raise ValueError("the arguments are nested too deeply") from None
    args, kwargs = arguments.view_text(text)
    return redact_positional(args, positional_names(task_path, len(args))), redact(kwargs)


def _fill_envelope(document: Any) -> Any:
    """Return the envelope of arguments with the parts that were cut off."""
    if type(document) is list and len(document) < 3:
        return [*document, *([arguments.VERSION, [], {}][len(document) :])]
    return document


def _argument(name: str, value: Any) -> ArgumentText:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    is_cut = len(text) > ARGUMENT_CHARACTERS
    return ArgumentText(name, f"{text[: ARGUMENT_CHARACTERS - 1]}…" if is_cut else text, is_cut)


def _on_one_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
