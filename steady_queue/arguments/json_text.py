"""JSON text of plain values: the encoder, the parser, and which values JSON keeps as they are."""

from __future__ import annotations

import json
import json.encoder
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, NoReturn

from steady_queue.arguments.decoding import MARK, MAX_DEPTH
from steady_queue.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SCALARS = frozenset({str, int, float, bool, NoneType})
_MAX_INT_DIGITS = 100_000


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
    if len(digits) > _MAX_INT_DIGITS:
        raise DeserializationError(f"an integer has more than {_MAX_INT_DIGITS:,} digits")
    return int(Decimal(digits))


encode = _make_encoder()
_parse = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
# Python limits the digits of an integer by a setting that may have been higher where the text was written.
_parse_long = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_read_long_int).raw_decode


def is_plain(level: Sequence[Any], limit: int) -> bool:
    """Whether containers hold only values that JSON keeps as they are."""
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


def parse(text: str) -> Any:
    """Return the document of a JSON text, or raise DeserializationError."""
    try:
        document, end = _parse(text)
    except json.JSONDecodeError as error:
        raise DeserializationError(f"stored text is not JSON: {error}") from error
    except DeserializationError:
        raise
    except ValueError:
        document, end = _parse_long(text)
    if end != len(text):
        raise DeserializationError(f"stored text has more after the end of its JSON at character {end}")
    return document
