"""The arguments of a failed task as JSON that can be edited, and back.

The text is what is stored, with the markers of values that JSON does not have. Secrets are not shown: a placeholder
with a number stands for each, and keeps the stored value if it is still there when the form is sent.
"""

from __future__ import annotations

import json
import re
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from django.utils.crypto import constant_time_compare, salted_hmac

from steady_queue import arguments
from steady_queue.arguments.decoding import MARK
from steady_queue.errors import (
    ArgumentError,
    ConcurrencyKeyError,
    DeserializationError,
    SteadyQueueError,
    UniqueKeyError,
)
from steady_queue.jobs.compat import InvalidTask
from steady_queue.jobs.definition.task import TaskCall
from steady_queue.jobs.registry import registry
from steady_queue.monitoring.jobs.redaction import REDACTED, positional_names, redact, redact_positional
from steady_queue.monitoring.text import escape_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Step = tuple[int | str, str]
    Path = tuple[Step, ...]
    Placeholder = tuple[tuple[Path, str], Any]
    Placeholders = Mapping[tuple[Path, str], Any]

#: Characters of stored arguments that a form shows.
EDITED_CHARACTERS = 100_000
#: As it is in other pages, or with its number in this form.
_PLACEHOLDER = re.compile(r"\[redacted(?: \d+)?\]")
#: Errors that quote what code of the project has raised.
_QUOTING = (ConcurrencyKeyError, UniqueKeyError, DeserializationError)
_RULE = (
    "a placeholder keeps a stored secret only where the form showed it, under the same names and for the same task; "
    "enter the value instead"
)


class ArgumentForm(NamedTuple):
    """The fields of the form, or why there are none."""

    args: str = "[]"
    kwargs: str = "{}"
    #: Identifies the stored arguments without showing them.
    version: str = ""
    has_secrets: bool = False
    problem: str = ""


def build_form(stored: str, task_path: str) -> ArgumentForm:
    """Return the form for the arguments of a task."""
    version = _version(stored)
    if len(stored) > EDITED_CHARACTERS:
        problem = f"The arguments have {len(stored):,} characters: too many to edit them here."
        return ArgumentForm(version=version, problem=problem)
    try:
        args, kwargs = _open(stored)
        hidden = _hide(args, kwargs, task_path)
    except (ValueError, TypeError, KeyError, RecursionError):
        return ArgumentForm(version=version)  # the reason, perhaps, why other arguments are needed
    return ArgumentForm(_dump(hidden[0]), _dump(hidden[1]), version, hidden != (args, kwargs))


def read_form(
    stored: str, task_path: str, args_text: str, kwargs_text: str, version: str, *, shown_for: str | None = None
) -> TaskCall:
    """Return the call with the edited arguments; raises ArgumentError or another error of Steady Queue.

    `shown_for` is the task for which the form was built, if it may be another one.
    """
    if not constant_time_compare(version, _version(stored)):
        raise ArgumentError("the arguments of the task have changed since this form was shown: open it again")
    args, kwargs = _parse("positional", args_text, list), _parse("keyword", kwargs_text, dict)
    try:
        old_args, old_kwargs = _open(stored)
    except (ValueError, TypeError, KeyError, RecursionError):
        old_args, old_kwargs = [], {}
    try:
        # Another task may show, or do, what it wants with a secret.
        is_same = shown_for in (None, task_path)
        shown = _hide(old_args, old_kwargs, task_path) if is_same else ([], {})
        all_args, all_kwargs = (
            _restore(edited, dict(_find_placeholders(nodes, old)))
            for edited, nodes, old in zip((args, kwargs), shown, (old_args, old_kwargs), strict=True)
        )
        positional, named = arguments.loads(json.dumps([arguments.VERSION, all_args, all_kwargs]))
    except DeserializationError:
        if (all_args, all_kwargs) == (args, kwargs):
            raise
        # The error may contain a part of a secret.
        raise ArgumentError("an argument cannot be restored; it may be one that is not shown") from None
    except RecursionError:
        raise ArgumentError("the arguments are nested too deeply") from None
    return TaskCall(registry.resolve(task_path), tuple(positional), named)


def describe_error(error: Exception, stored: str, task_path: str) -> str:
    """Describe the error of a call with these arguments; without its text, if that may quote one that is not shown."""
    form = build_form(stored, task_path)
    is_ours = isinstance(error, (SteadyQueueError, InvalidTask)) and not isinstance(error, _QUOTING)
    if (form.has_secrets or form.problem) and not is_ours:
        return f"{type(error).__name__}; its text may contain an argument that is not shown"
    is_sentence = isinstance(error, (SteadyQueueError, ValueError, InvalidTask))
    return f"{error}" if is_sentence else f"{type(error).__name__}: {error}"


def _version(stored: str) -> str:
    return salted_hmac("steady_queue.arguments", stored, algorithm="sha256").hexdigest()


def _open(stored: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the stored nodes; raises DeserializationError."""
    arguments.examine(stored)
    _, args, kwargs = json.loads(stored)
    return args, kwargs


def _dump(value: Any) -> str:
    return escape_json(json.dumps(value, indent=2, ensure_ascii=False))


def _parse(name: str, text: str, kind: type) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a value of JSON")

    try:
        value = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"the {name} arguments are not JSON: {error}") from None
    if type(value) is not kind:
        expected = "a list: [...]" if kind is list else "an object: {...}"
        raise ArgumentError(f"the {name} arguments must be {expected}")
    return value


# -- secrets ----------------------------------------------------------------------------------------------------------


def _hide(args: list[Any], kwargs: dict[str, Any], task_path: str) -> tuple[Any, Any]:
    """Return the nodes with a numbered placeholder for each secret."""
    numbers = count(1)
    hidden = redact_positional(args, positional_names(task_path, len(args)))
    return _number(hidden, args, numbers), _number(redact(kwargs), kwargs, numbers)


def _number(hidden: Any, stored: Any, numbers: Iterator[int]) -> Any:
    if hidden == REDACTED != stored:
        return f"{REDACTED[:-1]} {next(numbers)}]"
    if type(hidden) is list:
        return [_number(*nodes, numbers) for nodes in zip(hidden, stored, strict=True)]
    if type(hidden) is dict:
        return {name: _number(item, stored[name], numbers) for name, item in hidden.items()}
    return hidden


def _find_placeholders(shown: Any, stored: Any, path: Path = (), *, are_pairs: bool = False) -> Iterator[Placeholder]:
    """Yield the place of each placeholder, and what it stands for."""
    if type(shown) is str and _PLACEHOLDER.fullmatch(shown):
        yield (path, shown), stored
    for key, step, has_pairs in _steps(shown, are_pairs):
        yield from _find_placeholders(shown[key], stored[key], (*path, step), are_pairs=has_pairs)


def _restore(edited: Any, placeholders: Placeholders, path: Path = (), *, are_pairs: bool = False) -> Any:
    """Return an edited node with the stored values of its placeholders; raises ArgumentError for one that was moved."""
    if type(edited) is str and _PLACEHOLDER.fullmatch(edited):
        if (path, edited) not in placeholders:
            raise ArgumentError(f"{edited!r} does not stand for a secret here: {_RULE}")
        return placeholders[path, edited]
    restored = {
        key: _restore(edited[key], placeholders, (*path, step), are_pairs=has_pairs)
        for key, step, has_pairs in _steps(edited, are_pairs)
    }
    if type(edited) is list:
        return list(restored.values())
    return restored if type(edited) is dict else edited


def _steps(node: Any, are_pairs: bool) -> Iterator[tuple[Any, Step, bool]]:
    """Yield the index or name of each part of a node, the step to it, and whether the part holds keys with values.

    A step has all that decides what the part is, and so whether it is redacted: a marker decides what the names beside
    it mean, and the first part of a pair is the name of the second.
    """
    if type(node) is list:
        for at, item in enumerate(node):
            yield at, (at, json.dumps(item[:1]) if are_pairs and type(item) is list else ""), False
    elif type(node) is dict:
        mark = node.get(MARK)
        for name in node:
            yield name, (name, json.dumps(mark)), mark == "dict" and name == "v"
