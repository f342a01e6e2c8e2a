"""Serialize arguments and results as JSON: a task receives exactly what was passed, or the enqueue names the argument.

The text of arguments is `[1,[...],{...}]`: a version, the positional and the keyword arguments. It is pure ASCII. This
module serializes and restores arguments; these modules do it for the values in them, and for return values:

    json_text.py    the JSON encoder and parser, and which values JSON keeps as they are
    encoding.py     markers: JSON for the Python values that JSON itself does not have
    decoding.py     from markers back to Python values
    results.py      return values of tasks
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.utils.duration import duration_iso_string

from steady_queue.arguments.decoding import MARK, read, replace_models
from steady_queue.arguments.encoding import RefusalError, Writer
from steady_queue.arguments.json_text import encode, is_plain, parse
from steady_queue.arguments.results import dump_result, load_result
from steady_queue.distribution import describe_missing_name
from steady_queue.errors import ArgumentError, DeserializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["DeserializationError", "SerializationError", "aloads", "dumps", "loads", "view", "view_text"]
__all__ += ["MAX_BYTES", "dump_result", "load_result"]

SerializationError = ArgumentError

MAX_BYTES = 4 * 1024 * 1024
VERSION = 1

_MARK_TEXT = f'"{MARK}"'


def __getattr__(name: str) -> object:
    # The models of the other distribution import this name before the app can be refused.
    if name == "Arguments":
        raise ImportError(describe_missing_name(__name__, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def dumps(args: Sequence[object], kwargs: Mapping[str, object], *, limit: int = MAX_BYTES) -> str:
    """Return the text of a task's arguments, or raise ArgumentError naming the one that cannot be stored."""
    try:
        text = _plain_text(args, kwargs, limit)
    except Exception:
        text = None  # _marked_text finds out which argument it was
    if text is None:
        text = _marked_text(args, kwargs, limit)
    if len(text) > limit:
        raise _too_large(len(text), limit, args, kwargs)
    return text


def _plain_text(args: Sequence[object], kwargs: Mapping[str, object], limit: int) -> str | None:
    """Return the text of arguments that are JSON already, or None."""
    if type(kwargs) is not dict or (type(args) is not tuple and type(args) is not list):
        return None
    if not is_plain((args, kwargs), limit):
        return None
    text = encode((VERSION, args, kwargs))
    # Lone surrogates that make a pair would be read back as one character.
    if "\\ud" in text and parse(text) != [VERSION, list(args), kwargs]:
        return None
    return text


def _marked_text(args: Sequence[object], kwargs: Mapping[str, object], limit: int) -> str:
    """Return the text of arguments of which some need markers."""
    try:
        return encode((VERSION, *_nodes(args, kwargs, limit)))
    except ArgumentError:
        raise
    except Exception as error:
        raise ArgumentError("the arguments cannot be serialized as JSON") from error


def _nodes(args: Sequence[object], kwargs: Mapping[str, object], limit: int) -> tuple[Any, Any]:
    """Return positional and keyword arguments as JSON nodes."""
    writer, root = Writer(limit), "args"
    try:
        positional = writer.write(list(args))
        root = "kwargs"
        names = dict(kwargs)
        if any(type(name) is not str for name in names):
            raise RefusalError("the name of an argument must be a string")
        return positional, writer.write(names)
    except RefusalError as refusal:
        steps = refusal.steps[::-1]
        path = "".join([root, *steps[:12], "..." if len(steps) > 12 else ""])
        raise ArgumentError(f"{path}: {refusal}") from refusal.__cause__
    except Exception as error:
        raise ArgumentError(f"{root}: the arguments cannot be read") from error


def _too_large(size: int, limit: int, args: Sequence[object], kwargs: Mapping[str, object]) -> ArgumentError:
    message = f"the arguments take {size:,} bytes, more than the limit of {limit:,}"
    with suppress(Exception):
        named = [(f"args[{index}]", value) for index, value in enumerate(args)]
        named += [(f"kwargs[{name!r}]", value) for name, value in kwargs.items()]
        largest, where = max((len(encode(Writer().write(value))), where) for where, value in named)
        message = f"{where}: {message}; this one alone takes {largest:,}"
    return ArgumentError(message)


def resolve(text: str) -> tuple[list[object], dict[str, object]]:
    """Return what `loads` does without a query: a text for each model instance, whose class was found."""
    return loads(text, read_node=lambda node: read(replace_models(node)))


def loads(text: str, *, read_node: Callable[[Any], Any] = read) -> tuple[list[object], dict[str, object]]:
    """Return the arguments of a text; model instances are fetched from the database."""
    try:
        args, kwargs = _open(text)
        if _MARK_TEXT in text:
            args, kwargs = read_node(args), read_node(kwargs)
            if type(kwargs) is not dict or any(type(name) is not str for name in kwargs):
                raise DeserializationError("the names of the keyword arguments are not strings")
    except DeserializationError:
        raise
    except Exception as error:
        raise DeserializationError(f"stored arguments cannot be restored: {type(error).__name__}: {error}") from error
    return args, kwargs


def examine(text: str) -> None:
    """Raise DeserializationError if this is not a text of arguments; the arguments are not restored."""
    _open(text)


async def aloads(text: str) -> tuple[list[object], dict[str, object]]:
    """Return the arguments of a text, leaving the event loop only when model instances must be fetched."""
    if type(text) is str and _MARK_TEXT in text and '"model"' in text:
        return await sync_to_async(loads, thread_sensitive=True)(text)
    return loads(text)


def _open(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the nodes inside the envelope."""
    document = parse(text)
    if type(document) is not list or not document:
        raise DeserializationError("stored arguments are not a list that begins with a version")
    if document[0] != VERSION:
        # Anything but a number may be a secret, which the message must not contain.
        is_version = type(document[0]) is int and 0 <= document[0] < 1_000
        found = f"version {document[0]}" if is_version else "no version"
        raise DeserializationError(f"stored arguments have {found}, not version {VERSION}")
    if len(document) != 3 or type(document[1]) is not list or type(document[2]) is not dict:
        raise DeserializationError("stored arguments are not a list and an object")
    return document[1], document[2]


def view(args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments as plain JSON values, to be shown."""
    if type(kwargs) is dict and is_plain((args, kwargs), sys.maxsize):
        return list(args), kwargs.copy()
    positional, named = _nodes(args, kwargs, sys.maxsize)
    return _view(positional), _view(named)


def view_text(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the same from stored text, without a database query."""
    try:
        args, kwargs = _open(text)
        return (_view(args), _view(kwargs)) if _MARK_TEXT in text else (args, kwargs)
    except DeserializationError:
        raise
    except Exception as error:
        raise DeserializationError(f"stored arguments cannot be shown: {type(error).__name__}: {error}") from error


def _view(node: Any) -> Any:
    if type(node) is list:
        return [_view(item) for item in node]
    if type(node) is not dict:
        return node
    if MARK not in node:
        return {key: _view(item) for key, item in node.items()}
    return _VIEWS[node[MARK]](node)


def _view_content(node: dict[str, Any]) -> Any:
    return _view(node["v"])


def _view_bytes(node: dict[str, Any]) -> str:
    try:
        return str(read(node), "utf-8")
    except UnicodeDecodeError:
        return str(node["v"])


def _view_dict(node: dict[str, Any]) -> dict[str, Any]:
    return {str(_view(key)): _view(item) for key, item in node["v"]}


def _view_enum(node: dict[str, Any]) -> Any:
    try:
        return _view(Writer().write(read(node)._value_))
    except Exception:
        return f"{node['v']}.{node.get('name', node.get('value'))}"


_VIEWS: dict[str, Callable[[dict[str, Any]], Any]] = {
    **dict.fromkeys(("int", "float", "str"), read),
    **dict.fromkeys(("datetime", "date", "time", "decimal", "uuid", "safe"), _view_content),
    **dict.fromkeys(("tuple", "set", "frozenset"), _view_content),
    **dict.fromkeys(("bytes", "bytearray"), _view_bytes),
    "timedelta": lambda node: duration_iso_string(read(node)),
    "dict": _view_dict,
    "enum": _view_enum,
    "model": lambda node: f"{node['v']}:{_view(node['pk'])}",
}
