"""Markers: JSON for the Python values that JSON itself does not have.

A marker is a JSON object with the reserved key "$", which names its kind, and "v", its content. A dict of the user that
JSON would change (it has the key "$", or a key that is not a string) becomes a marker too: markers and data cannot be
confused.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum, Flag
from io import IOBase
from math import isfinite
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.apps import apps
from django.core.files.base import File
from django.db import router
from django.db.models import Model, QuerySet
from django.utils.functional import LazyObject, Promise
from django.utils.safestring import SafeString

from steady_queue.arguments.decoding import MARK, MAX_DEPTH, find_enum_class

# Every Python parses integers up to this size; for longer ones, each process can have a limit of its own.
_LONG_INT = 10**640
# Two lone surrogates in a row would be read back as one character.
_SPLIT_PAIR = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")

_BASES: tuple[type, ...] = (str, int, float, bytes, bytearray, dict, list, tuple, set, frozenset)
_BASES += (dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, UUID)
_HINTS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (Promise, "pass str(value)"),
    (LazyObject, "pass the object that it stands for"),
    (QuerySet, "pass a list of primary keys"),
    (BaseException, "pass str(error)"),
    ((IOBase, File), "pass its name or its content"),
    ((type, ModuleType, FunctionType, BuiltinFunctionType, MethodType), "pass its dotted name"),
    *((base, f"pass a plain {base.__name__}") for base in _BASES),
    (Iterator, "pass list(value)"),
    (object, "pass plain data, such as a primary key or a dict"),
)


class RefusalError(Exception):
    """A value cannot be stored; `steps` is the path to it, collected from the inside out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.steps: list[str] = []


class Writer:
    """Converts values to JSON nodes, within limits of size and depth."""

    def __init__(self, limit: int = sys.maxsize) -> None:
        self.limit = limit
        self.room = limit // 2  # an item of a container takes two bytes at least

    def write(self, value: object, depth: int = 1) -> object:
        """Return the node of a value, or raise RefusalError."""
        try:
            kind = type(value)
            if (leaf := _LEAVES.get(kind)) is not None:
                return leaf(value)
            if (container := _CONTAINERS.get(kind)) is not None:
                return container(self, value, depth)
            if issubclass(kind, Enum):
                return _enum_node(value)
            if issubclass(kind, Model):
                return self.model(value, depth)
            raise RefusalError(_explain_refusal(kind))
        except RefusalError:
            raise
        except Exception as error:
            raise RefusalError(f"reading it raised {type(error).__name__}") from error

    def items(self, values: Any, depth: int, step: str = "") -> list[object]:
        """Return the nodes of a container's items, or of a dict's keys."""
        if depth > MAX_DEPTH:
            raise RefusalError(f"it is nested deeper than {MAX_DEPTH} levels, or contains itself")
        self.room -= len(values)
        if self.room < 0:
            raise RefusalError(f"it holds too many values for the limit of {self.limit:,} bytes")
        nodes: list[object] = []
        try:
            for value in values:
                nodes.append(self.write(value, depth + 1))
        except RefusalError as refused:
            refused.steps.append(step or f"[{len(nodes)}]")
            raise
        return nodes

    def mapping(self, value: dict[Any, object], depth: int) -> object:
        """Return a plain JSON object, or a marker with pairs where JSON would change the keys."""
        keys = self.items(value, depth, " (a key)")
        pairs: list[tuple[Any, object]] = []
        for key, (original, item) in zip(keys, value.items(), strict=True):
            try:
                pairs.append((key, self.write(item, depth + 1)))
            except RefusalError as refused:
                refused.steps.append(f"[{_format_key(original)}]")
                raise
        if MARK in value or any(type(key) is not str for key in keys):
            return {MARK: "dict", "v": pairs}
        return dict(pairs)

    def model(self, value: Any, depth: int) -> object:
        """Return a reference to a saved model instance."""
        kind, pk, state = type(value), value.pk, value._state
        label = kind._meta.label
        if state.adding or pk is None or (type(pk) is tuple and None in pk):
            raise RefusalError(f"this {label} is not saved; save it first, or pass its values")
        if apps.get_model(label) is not kind:
            raise RefusalError(f"the class of this {label} is not the one registered in its app; pass its primary key")
        (node,) = self.items([pk], depth, ".pk")
        return {MARK: "model", "v": label, "pk": node, "db": state.db or router.db_for_read(kind, instance=value)}


def _int_node(value: int) -> object:
    return value if -_LONG_INT < value < _LONG_INT else {MARK: "int", "v": hex(value)}


def _float_node(value: float) -> object:
    return value if isfinite(value) else {MARK: "float", "v": repr(value)}


def _str_node(value: str) -> object:
    if value.isascii() or not _SPLIT_PAIR.search(value):
        return value
    return {MARK: "str", "v": _SPLIT_PAIR.split(value)}


def _moment_node(value: Any) -> object:
    name = "datetime" if type(value) is dt.datetime else "time"
    node: dict[str, object] = {MARK: name, "v": value.isoformat()}
    zone, offset = value.tzinfo, value.utcoffset()
    if type(zone) is ZoneInfo and zone.key and value.replace(tzinfo=ZoneInfo(zone.key)).isoformat() == node["v"]:
        node["zone"] = zone.key
    elif zone is not None and offset is None:
        raise RefusalError("its time zone has no UTC offset; pass it without a time zone")
    elif offset is not None and offset.microseconds:
        node["offset"] = _parts(offset)  # Python does not read fractions of an offset from text
    if value.fold:
        node["fold"] = 1
    return node


def _parts(value: dt.timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _text_leaf(name: str, text: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda value: {MARK: name, "v": text(value)}


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _order(node: object) -> tuple[str, Any]:
    return type(node).__name__, node if type(node) in (str, int, float) else repr(node)


def _items_marker(name: str, *, ordered: bool) -> Callable[[Writer, Any, int], object]:
    def write(writer: Writer, value: Any, depth: int) -> object:
        nodes = writer.items(value, depth, "" if ordered else " (an item)")
        return {MARK: name, "v": nodes if ordered else sorted(nodes, key=_order)}

    return write


_LEAVES: dict[type, Callable[[Any], object]] = {
    NoneType: lambda value: value,
    bool: lambda value: value,
    int: _int_node,
    float: _float_node,
    str: _str_node,
    SafeString: _text_leaf("safe", lambda value: _str_node(str.__str__(value))),
    bytes: _text_leaf("bytes", _base64),
    bytearray: _text_leaf("bytearray", _base64),
    dt.datetime: _moment_node,
    dt.time: _moment_node,
    dt.date: _text_leaf("date", dt.date.isoformat),
    dt.timedelta: _text_leaf("timedelta", _parts),
    Decimal: _text_leaf("decimal", str),
    UUID: _text_leaf("uuid", str),
}
_CONTAINERS: dict[type, Callable[[Writer, Any, int], object]] = {
    list: Writer.items,
    dict: Writer.mapping,
    tuple: _items_marker("tuple", ordered=True),
    set: _items_marker("set", ordered=False),
    frozenset: _items_marker("frozenset", ordered=False),
}


def _enum_node(value: Any) -> object:
    kind = type(value)
    path = f"{kind.__module__}:{kind.__qualname__}"
    try:
        known = find_enum_class(path) is kind
    except Exception:
        known = False
    if known and kind.__members__.get(value._name_) is value:
        return {MARK: "enum", "v": path, "name": value._name_}
    if known and issubclass(kind, Flag) and type(value._value_) is int:
        return {MARK: "enum", "v": path, "value": _int_node(value._value_)}
    raise RefusalError(f"{_a(kind)} cannot be stored, because its class cannot be imported by name; pass its .value")


def _a(kind: type) -> str:
    name = kind.__name__[:100]
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"


def _explain_refusal(kind: type) -> str:
    hint = next(hint for base, hint in _HINTS if issubclass(kind, base))
    return f"{_a(kind)} cannot be stored; {hint}"


def _format_key(key: object) -> str:
    """Return the text of a key in a path, without calling code of the key."""
    if type(key) is str:
        return repr(key) if len(key) <= 60 else f"{key[:60]!r}..."
    return repr(key) if type(key) is int and -(2**64) < key < 2**64 else f"<{type(key).__name__}>"
