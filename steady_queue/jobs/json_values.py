"""JSON that is stored with a job beside its arguments: its metadata, and what a task saves for its next attempt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from steady_queue.arguments.json_text import encode

#: How many bytes of JSON the metadata of a task, and the data of a checkpoint, may have.
METADATA_BYTES = 64 * 1024
CHECKPOINT_BYTES = 256 * 1024


def dump_metadata(metadata: object) -> str:
    """Return metadata as JSON; raises TypeError or ValueError if it is no JSON object or too large."""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a dict, not {type(metadata).__name__}")
    return _dump("metadata", dict(metadata), METADATA_BYTES)


def load_metadata(text: str | None) -> dict[str, Any]:
    """Return stored metadata; raises ValueError if it is no JSON object."""
    if text is None:
        return {}
    metadata = json.loads(text)
    if not isinstance(metadata, dict):
        raise ValueError("it is not a JSON object")
    return metadata


def dump_checkpoint(data: object) -> str:
    """Return the data of a checkpoint as JSON; raises TypeError or ValueError if it is no JSON or too large."""
    return _dump("the data of a checkpoint", data, CHECKPOINT_BYTES)


def _dump(what: str, value: object, max_bytes: int) -> str:
    try:
        _refuse_keys(what, value)
        text = encode(value)
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply, or contains itself") from None
    except ValueError as error:
        raise ValueError(f"{what} must be JSON: {error}") from None
    except TypeError as error:
        raise TypeError(f"{what} must be JSON: {error}") from None
    # The text is pure ASCII: a character is a byte.
    if len(text) > max_bytes:
        raise ValueError(f"{what} has {len(text):,} bytes as JSON; the limit is {max_bytes:,}")
    return text


def _refuse_keys(what: str, value: object) -> None:
    """Refuse keys that the encoder would turn into strings: the value would not be read as it was written."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key must be a string, not {type(key).__name__} {key!r:.50}")
            _refuse_keys(what, inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _refuse_keys(what, inner)
