"""Arguments and results as JSON text: exactly what was passed comes back, or an error says which argument cannot.

The text of arguments is `[1,[...],{...}]`: a version, the positional and the named arguments. It is pure ASCII. What
JSON cannot hold is stored as a marker (see steady_queue.arguments.encoding).
"""

from __future__ import annotations

import json
import json.encoder
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from math import isfinite
from types import NoneType
from typing import Any, NoReturn

from asgiref.sync import sync_to_async
from django.utils.duration import duration_iso_string

from steady_queue.arguments.encoding import MARK, MAX_DEPTH, RefusalError, Writer, read
from steady_queue.errors import ArgumentError, DeserializationError

__all__ = ["DeserializationError", "SerializationError", "aloads", "dumps", "loads", "view", "view_text"]
__all__ += ["MAX_BYTES", "dump_result", "load_result"]

SerializationError = ArgumentError

MAX_BYTES = 4 * 1024 * 1024
#: How long the JSON of a return value may be.
RESULT_CHARACTERS = 64 * 1024 * 1024
VERSION = 1

_SCALARS = frozenset({str, int, float, bool, NoneType})
_MARK_TEXT = f'"{MARK}"'
_LONGEST_INT = 100_000


def _make_encoder() -> Callable[[object], str]:
    """Return the C encoder itself where there is one: the public one builds it again for every call."""
    public = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":"))
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return public.encode
    text = json.encoder.encode_basestring_ascii
    encode = make(None, public.default, text, None, ":", ",", False, False, False)
    join = "".join
    return lambda value: join(encode(value, 0))


def _refuse_constant(name: str) -> NoReturn:
    raise DeserializationError(f"{name} is not JSON")


def _read_long_int(digits: str) -> int:
    if len(digits) > _LONGEST_INT:
        raise DeserializationError(f"an integer has more than {_LONGEST_INT:,} digits")
    return int(Decimal(digits))


_encode = _make_encoder()
_parse = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
# Python limits the digits of an integer by a setting that may have been higher where the text was written.
_parse_long = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_read_long_int).raw_decode


def dumps(args: Sequence[object], kwargs: Mapping[str, object], *, limit: int = MAX_BYTES) -> str:
    """Return the text of a task's arguments, or raise ArgumentError naming the one that cannot be stored."""
    try:
        text = _plain_text(args, kwargs, limit)
    except Exception:
        text = None  # the other way finds out which argument it was
    if text is None:
        text = _marked_text(args, kwargs, limit)
    if len(text) > limit:
        raise _too_large(len(text), limit, args, kwargs)
    return text


def _plain_text(args: Sequence[object], kwargs: Mapping[str, object], limit: int) -> str | None:
    """Return the text of arguments that are JSON already, or None."""
    if type(kwargs) is not dict or (type(args) is not tuple and type(args) is not list):
        return None
    if not _is_plain((args, kwargs), limit):
        return None
    text = _encode((VERSION, args, kwargs))
    # Lone surrogates that make a pair would be read back as one character.
    if "\\ud" in text and _document(text) != [VERSION, list(args), kwargs]:
        return None
    return text


def _is_plain(level: Sequence[Any], limit: int) -> bool:
    """Tell whether containers hold nothing but what JSON keeps as it is."""
    depth, room = 0, limit // 2  # an item of a container takes two bytes at least
    while level:
        depth += 1
        if depth > MAX_DEPTH or room < 0:
            return False
        below: list[Any] = []
        for container in level:
            room -= len(container)
            if type(container) is dict:
                for key in container:
                    if type(key) is not str or key == MARK:
                        return False
                container = container.values()
            for value in container:
                kind = type(value)
                if kind in _SCALARS:
                    continue
                if kind is not list and kind is not dict:
                    return False
                below.append(value)
        level = below
    return True


def _marked_text(args: Sequence[object], kwargs: Mapping[str, object], limit: int) -> str:
    """Return the text of arguments of which some need markers."""
    try:
        return _encode((VERSION, *_nodes(args, kwargs, limit)))
    except ArgumentError:
        raise
    except Exception as error:
        raise ArgumentError("the arguments cannot be written as JSON") from error


def _nodes(args: Sequence[object], kwargs: Mapping[str, object], limit: int) -> tuple[Any, Any]:
    """Return positional and named arguments as JSON nodes."""
    writer, root = Writer(limit), "args"
    try:
        positional = writer.write(list(args))
        root = "kwargs"
        names = dict(kwargs)
        if any(type(name) is not str for name in names):
            raise RefusalError("the name of an argument must be a str")
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
        largest, where = max((len(_encode(Writer().write(value))), where) for where, value in named)
        message = f"{where}: {message}; this one alone takes {largest:,}"
    return ArgumentError(message)


def loads(text: str) -> tuple[list[object], dict[str, object]]:
    """Return the arguments of a text; model instances are fetched from the database."""
    try:
        args, kwargs = _open(text)
        if _MARK_TEXT in text:
            args, kwargs = read(args), read(kwargs)
            if type(kwargs) is not dict or any(type(name) is not str for name in kwargs):
                raise DeserializationError("the named arguments are not named by strings")
    except DeserializationError:
        raise
    except Exception as error:
        raise DeserializationError(f"stored arguments cannot be restored: {type(error).__name__}: {error}") from error
    return args, kwargs


def examine(text: str) -> None:
    """Raise DeserializationError if this is no text of arguments at all; nothing is restored."""
    _open(text)


async def aloads(text: str) -> tuple[list[object], dict[str, object]]:
    """Return the arguments of a text, leaving the event loop only when model instances must be fetched."""
    if type(text) is str and _MARK_TEXT in text and '"model"' in text:
        return await sync_to_async(loads, thread_sensitive=True)(text)
    return loads(text)


def _open(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the nodes inside the envelope."""
    document = _document(text)
    if type(document) is not list or not document:
        raise DeserializationError("stored arguments are not in an envelope")
    if document[0] != VERSION:
        raise DeserializationError(f"stored arguments have version {document[0]!r:.100}, not {VERSION}")
    if len(document) != 3 or type(document[1]) is not list or type(document[2]) is not dict:
        raise DeserializationError("stored arguments are not a list and an object")
    return document[1], document[2]


def _document(text: str) -> Any:
    try:
        document, end = _parse(text)
    except json.JSONDecodeError as error:
        raise DeserializationError(f"stored text is not JSON: {error}") from error
    except DeserializationError:
        raise
    except ValueError:
        document, end = _parse_long(text)
    if end != len(text):
        raise DeserializationError(f"stored text goes on after its end at character {end}")
    return document


def view(args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[list[Any], dict[str, Any]]:
    """Return a JSON-friendly picture of arguments."""
    if type(kwargs) is dict and _is_plain((args, kwargs), sys.maxsize):
        return list(args), kwargs.copy()
    positional, named = _nodes(args, kwargs, sys.maxsize)
    return _picture(positional), _picture(named)


def view_text(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the same picture from stored text, without the database."""
    try:
        args, kwargs = _open(text)
        return (_picture(args), _picture(kwargs)) if _MARK_TEXT in text else (args, kwargs)
    except DeserializationError:
        raise
    except Exception as error:
        raise DeserializationError(f"stored arguments cannot be shown: {type(error).__name__}: {error}") from error


def _picture(node: Any) -> Any:
    if type(node) is list:
        return [_picture(item) for item in node]
    if type(node) is not dict:
        return node
    if MARK not in node:
        return {key: _picture(item) for key, item in node.items()}
    return _PICTURES[node[MARK]](node)


def _picture_content(node: dict[str, Any]) -> Any:
    return _picture(node["v"])


def _picture_bytes(node: dict[str, Any]) -> str:
    try:
        return str(read(node), "utf-8")
    except UnicodeDecodeError:
        return str(node["v"])


def _picture_dict(node: dict[str, Any]) -> dict[str, Any]:
    return {str(_picture(key)): _picture(item) for key, item in node["v"]}


def _picture_enum(node: dict[str, Any]) -> Any:
    try:
        return _picture(Writer().write(read(node)._value_))
    except Exception:
        return f"{node['v']}.{node.get('name', node.get('value'))}"


_PICTURES: dict[str, Callable[[dict[str, Any]], Any]] = {
    **dict.fromkeys(("int", "float", "str"), read),
    **dict.fromkeys(("datetime", "date", "time", "decimal", "uuid", "safe"), _picture_content),
    **dict.fromkeys(("tuple", "set", "frozenset"), _picture_content),
    **dict.fromkeys(("bytes", "bytearray"), _picture_bytes),
    "timedelta": lambda node: duration_iso_string(read(node)),
    "dict": _picture_dict,
    "enum": _picture_enum,
    "model": lambda node: f"{node['v']}:{_picture(node['pk'])}",
}


def dump_result(value: object) -> str:
    """Return the text of a task's return value, which must be JSON; tuples become lists, bytes are read as UTF-8."""
    with suppress(Exception):
        if _is_plain(([value],), sys.maxsize):
            return _limited(_encode(value))
    try:
        return _limited(_encode(_normal(value)))
    except (TypeError, ValueError):
        raise
    except RecursionError as error:
        raise ValueError("a task cannot return a value that is nested too deeply, or contains itself") from error
    except Exception as error:
        raise ValueError(f"a task cannot return this: reading it raised {type(error).__name__}") from error


def _limited(text: str) -> str:
    if len(text) > RESULT_CHARACTERS:
        raise ValueError(f"a task cannot return {len(text):,} characters of JSON: {RESULT_CHARACTERS:,} are the limit")
    return text


def _normal(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_normal_key(key): _normal(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return str(value, "utf-8")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"a task cannot return {value!r}: JSON has no such number")
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Sequence):
        return [_normal(item) for item in value]
    raise TypeError(f"a task cannot return a value of type {type(value).__name__}; return JSON values only")


def _normal_key(key: Any) -> Any:
    normal = _normal(key)
    if isinstance(normal, (list, dict)):
        raise TypeError(f"a task cannot return a dict with a key of type {type(key).__name__}")
    return normal


def load_result(text: str) -> Any:
    """Return the return value of a text."""
    try:
        return _document(text)
    except DeserializationError:
        raise
    except Exception as error:
        raise DeserializationError(f"a stored result cannot be read: {type(error).__name__}: {error}") from error
