"""Arguments as readable text, with secrets redacted, of a limited length.

What is redacted is decided by the names of arguments and of keys in them: see `steady_queue.redacted_arguments`. The
name of a positional argument is that of the parameter, as far as the task can be imported.
"""

from __future__ import annotations

import inspect
import json
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NamedTuple

import steady_queue
from steady_queue import arguments
from steady_queue.jobs.registry import registry
from steady_queue.monitoring.cut_json import load_beginning

#: Characters of stored arguments that are parsed, of one argument, and of all in a list.
PARSED_CHARACTERS, ARGUMENT_CHARACTERS, SHORT_CHARACTERS = 200_000, 10_000, 160
#: Stands for a value that is not shown.
REDACTED = "[redacted]"
_UNREADABLE = "(not readable)"
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ArgumentText(NamedTuple):
    """One argument: the name of its parameter, if it is known, and its value as JSON on several lines."""

    name: str
    text: str
    is_positional: bool = False
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
    except ValueError as error:
        return ArgumentTexts(problem=str(error)[:500], characters=length)
    names = parameter_names(task_path)
    values = [
        _argument(names[at] if at < len(names) else "", value, is_positional=True) for at, value in enumerate(args)
    ]
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
    names = parameter_names(task_path)
    args = [REDACTED if at < len(names) and is_secret(names[at]) else redact(value) for at, value in enumerate(args)]
    return args, redact(kwargs)


def redact(value: Any) -> Any:
    """Return a JSON value in which those with secret names are replaced."""
    if isinstance(value, dict):
        return {key: REDACTED if is_secret(str(key)) else redact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    return value


def is_secret(name: str) -> bool:
    """Whether values with this name are redacted."""
    return _matches(name, tuple(steady_queue.redacted_arguments))


@lru_cache(maxsize=4096)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    plain = re.sub(r"[^0-9a-z]+", "_", _HUMP.sub("_", name).lower())
    return any(fnmatchcase(plain, pattern.lower()) for pattern in patterns)


def parameter_names(task_path: str) -> tuple[str, ...]:
    """Return the names of the positional parameters of a task; none if it is not known."""
    try:
        task = registry.resolve(task_path)
        parameters = list(inspect.signature(task.func).parameters.values())
    except Exception:  # the import of the project's module may raise anything
        return ()
    if getattr(task, "takes_context", False):
        parameters = parameters[1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(one.name for one in parameters if one.kind in positional)


def _fill_envelope(document: Any) -> Any:
    """Return the envelope of arguments with the parts that were cut off."""
    if type(document) is list and len(document) < 3:
        return [*document, *([arguments.VERSION, [], {}][len(document) :])]
    return document


def _argument(name: str, value: Any, *, is_positional: bool = False) -> ArgumentText:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    is_cut = len(text) > ARGUMENT_CHARACTERS
    return ArgumentText(name, f"{text[: ARGUMENT_CHARACTERS - 1]}…" if is_cut else text, is_positional, is_cut)


def _on_one_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
