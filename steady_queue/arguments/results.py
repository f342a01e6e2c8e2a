"""Serialize the return values of tasks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any

from steady_queue.arguments.json_text import encode, is_plain, parse
from steady_queue.errors import DeserializationError

#: The largest JSON of a return value, in characters.
MAX_RESULT_LENGTH = 64 * 1024 * 1024


def dump_result(value: object) -> str:
    """Return the text of a task's return value, which must be JSON; tuples become lists, bytes are decoded as UTF-8."""
    with suppress(Exception):
        if is_plain(([value],), sys.maxsize):
            return _check_length(encode(value))
    try:
        return _check_length(encode(_to_json_value(value)))
    except (TypeError, ValueError):
        raise
    except RecursionError as error:
        raise ValueError("a task cannot return a value that is nested too deeply, or contains itself") from error
    except Exception as error:
        raise ValueError(f"a task cannot return this value: reading it raised {type(error).__name__}") from error


def _check_length(text: str) -> str:
    if len(text) > MAX_RESULT_LENGTH:
        raise ValueError(f"a task cannot return {len(text):,} characters of JSON: the limit is {MAX_RESULT_LENGTH:,}")
    return text


def _to_json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_to_json_key(key): _to_json_value(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return str(value, "utf-8")
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"a task cannot return {value!r}: JSON has no such number")
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Sequence):
        return [_to_json_value(item) for item in value]
    raise TypeError(f"a task cannot return a value of type {type(value).__name__}; return JSON values only")


def _to_json_key(key: Any) -> Any:
    normal = _to_json_value(key)
    if isinstance(normal, (list, dict)):
        raise TypeError(f"a task cannot return a dict with a key of type {type(key).__name__}")
    return normal


def load_result(text: str) -> Any:
    """Return the return value of a text."""
    try:
        return parse(text)
    except DeserializationError:
        raise
    except Exception as error:
        raise DeserializationError(f"a stored result cannot be read: {type(error).__name__}: {error}") from error
