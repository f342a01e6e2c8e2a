"""The arguments that a task had before it was retried with others."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from steady_queue import arguments


class OldArguments(NamedTuple):
    """Arguments that were replaced, as a result shows them, and when."""

    args: list[Any]
    kwargs: dict[str, Any]
    replaced_at: datetime


class OldText(NamedTuple):
    """Arguments that were replaced, as they are stored."""

    arguments: str
    replaced_at: datetime


def load_old_arguments(text: str | None) -> list[OldArguments]:
    """Return the arguments that a job had, the oldest first; raises ValueError if they cannot be read."""
    return [_load(old) for old in load_old_texts(text)]


def load_old_texts(text: str | None) -> list[OldText]:
    """Return the same as it is stored."""
    lines = [json.loads(line) for line in text.split("\n")] if text else []
    return [OldText(line["arguments"], datetime.fromisoformat(line["replaced_at"])) for line in lines]


def _load(old: OldText) -> OldArguments:
    try:
        args, kwargs = arguments.view_text(old.arguments)
    except arguments.DeserializationError:
        # The reason why they were replaced, perhaps.
        return OldArguments([old.arguments], {}, old.replaced_at)
    return OldArguments(args, kwargs, old.replaced_at)
