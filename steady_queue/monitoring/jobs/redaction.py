"""Which values are not shown: those whose names are secret, and positional ones whose names are not known.

Names are those of arguments and of keys in them: see `steady_queue.redacted_arguments`. The name of a positional
argument is that of the parameter. Without the task it is not known, and the value could be any secret.
"""

from __future__ import annotations

import inspect
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import steady_queue
from steady_queue.arguments.decoding import MARK
from steady_queue.jobs.registry import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Stands for a value that is not shown.
REDACTED = "[redacted]"
#: Between the words of a name: `accessKey`, and after an acronym `SSHKey`.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def is_secret(name: str) -> bool:
    """Whether values with this name are redacted."""
    return _matches(name, tuple(steady_queue.redacted_arguments))


def redact(value: Any) -> Any:
    """Return a JSON value, or a node of stored arguments, in which the values with secret names are replaced."""
    if isinstance(value, list):
        return [redact(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {key: REDACTED if is_secret(str(key)) else redact(item) for key, item in value.items()}
    if value.get(MARK) == "dict" and isinstance(shown.get("v"), list):
        shown["v"] = [_redact_pair(pair) for pair in value["v"]]
    return shown


def redact_positional(args: Sequence[Any], names: Sequence[str | None]) -> list[Any]:
    """Return positional arguments without secrets; `names` are those of `positional_names`."""
    return [
        REDACTED if name is None or is_secret(name) else redact(value) for name, value in zip(names, args, strict=True)
    ]


def positional_names(task_path: str, count: int) -> list[str | None]:
    """Return the names of the first positional arguments of a task; None for those that are not known."""
    try:
        task = registry.resolve(task_path)
        parameters = list(inspect.signature(task.func).parameters.values())
    except Exception:  # the import of the project's module may raise anything
        return [None] * count
    if getattr(task, "takes_context", False):
        parameters = parameters[1:]
    names: list[str | None] = [one.name for one in parameters if one.kind in _POSITIONAL]
    rest = next((one.name for one in parameters if one.kind is inspect.Parameter.VAR_POSITIONAL), None)
    return [*names, *[rest] * (count - len(names))][:count]


@lru_cache(maxsize=4096)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    plain = re.sub(r"[^0-9a-z]+", "_", _HUMP.sub("_", name).lower())
    without_number = plain.rstrip("_0123456789")
    # As one word: `passPhrase` is a passphrase, and a pattern may have been written without underscores.
    forms = {plain, without_number, without_number.replace("_", "")}
    return any(fnmatchcase(form, pattern.lower()) for form in forms for pattern in patterns)


def _redact_pair(pair: Any) -> Any:
    """Return a key and its value, of a dict whose keys are not all plain text."""
    if not isinstance(pair, list) or len(pair) != 2:
        return redact(pair)
    key, value = pair
    return [key, REDACTED if any(map(is_secret, _texts_in(key))) else redact(value)]


def _texts_in(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        if all(isinstance(item, str) for item in node):
            yield "".join(node)  # a text that is stored in parts
        for item in node:
            yield from _texts_in(item)
    elif isinstance(node, dict):
        yield from _texts_in(list(node.values()))
