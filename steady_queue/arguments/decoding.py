"""Decode JSON nodes: the values of markers. See encoding.py for the format."""

from __future__ import annotations

import datetime as dt
import sys
from base64 import b64decode
from decimal import Decimal
from enum import Enum, Flag
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import connections
from django.utils.safestring import SafeString

from steady_queue.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "$"
MAX_DEPTH = 100
# These two have side effects when they are imported.
_STDLIB = sys.stdlib_module_names - {"antigravity", "this"}


def read(node: Any) -> Any:
    """Return the value of a node; model instances are fetched from the database."""
    if type(node) is list:
        return [read(item) for item in node]
    if type(node) is not dict:
        return node
    if MARK not in node:
        return {key: read(item) for key, item in node.items()}
    reader = _READERS.get(node[MARK])
    if reader is None:
        raise DeserializationError(f"unknown marker {node[MARK]!r:.100}; was it written by a newer Steady Queue?")
    return reader(node)


def _read_moment(node: dict[str, Any]) -> object:
    kind: Any = dt.datetime if node[MARK] == "datetime" else dt.time
    value = kind.fromisoformat(node["v"])
    if "zone" in node:
        value = value.replace(tzinfo=ZoneInfo(node["zone"]))
    elif "offset" in node:
        value = value.replace(tzinfo=dt.timezone(dt.timedelta(*node["offset"])))
    return value.replace(fold=1) if node.get("fold") else value


def _read_dict(node: dict[str, Any]) -> object:
    value = {read(key): read(item) for key, item in node["v"]}
    if len(value) != len(node["v"]):
        raise DeserializationError("two keys of a dict are equal after they were restored")
    return value


def _read_enum(node: dict[str, Any]) -> Enum:
    kind = find_enum_class(node["v"])
    if "name" in node and (member := kind.__members__.get(node["name"])) is not None:
        return member
    if "value" in node and issubclass(kind, Flag):
        return kind(read(node["value"]))
    raise DeserializationError(f"{node['v']!r} has no member {node.get('name', node.get('value'))!r:.100}")


def _read_model(node: dict[str, Any]) -> object:
    kind, pk, alias = apps.get_model(node["v"]), read(node["pk"]), node["db"]
    try:
        return kind._base_manager.using(alias).get(pk=pk)
    except kind.DoesNotExist as error:
        raise DeserializationError(f"{node['v']} {pk!r} is no longer in the database {alias!r}") from error


def replace_models(node: Any) -> Any:
    """Return a node with a text for each model instance, whose class, key and database are checked: no query."""
    if type(node) is list:
        return [replace_models(item) for item in node]
    if type(node) is not dict:
        return node
    if node.get(MARK) != "model":
        return {key: replace_models(item) for key, item in node.items()}
    kind, pk, alias = apps.get_model(node["v"]), read(node["pk"]), node["db"]
    if alias not in connections:
        raise DeserializationError(f"DATABASES has no entry {alias!r:.100}, from which {node['v']} is fetched")
    try:
        return f"{node['v']}:{kind._meta.pk.to_python(pk)}"
    except ValidationError as error:
        raise DeserializationError(f"{pk!r:.100} is no key of {node['v']}: {' '.join(error.messages)}") from error


_READERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "int": lambda node: int(node["v"], 16),
    "float": lambda node: float(node["v"]),
    "str": lambda node: "".join(node["v"]),
    "safe": lambda node: SafeString(read(node["v"])),
    "bytes": lambda node: b64decode(node["v"], validate=True),
    "bytearray": lambda node: bytearray(b64decode(node["v"], validate=True)),
    "datetime": _read_moment,
    "time": _read_moment,
    "date": lambda node: dt.date.fromisoformat(node["v"]),
    "timedelta": lambda node: dt.timedelta(*node["v"]),
    "decimal": lambda node: Decimal(node["v"]),
    "uuid": lambda node: UUID(node["v"]),
    "tuple": lambda node: tuple(map(read, node["v"])),
    "set": lambda node: set(map(read, node["v"])),
    "frozenset": lambda node: frozenset(map(read, node["v"])),
    "dict": _read_dict,
    "enum": _read_enum,
    "model": _read_model,
}


def find_enum_class(path: str) -> type[Enum]:
    """Return an enum class, importing only modules of the installed apps and the standard library."""
    module, _, qualname = path.partition(":")
    if "__main__" in module.split(".") or not (module in _STDLIB or apps.get_containing_app_config(module)):
        raise DeserializationError(f"{module!r} is neither in an installed app nor in the standard library")
    try:
        found: object = import_module(module)
    except SystemExit as error:
        raise DeserializationError(f"importing {module!r} tried to exit the process") from error
    for name in qualname.split("."):
        found = vars(found).get(name) if isinstance(found, (ModuleType, type)) else None
    if not (isinstance(found, type) and issubclass(found, Enum)):
        raise DeserializationError(f"{path!r} is not an enum class")
    return found
