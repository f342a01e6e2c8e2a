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


def load_old_arguments(text: str | None) -> list[OldArguments]:
    """Return the arguments that a job had, the oldest first; raises ValueError if they cannot be read."""
    return [_load(json.loads(line)) for line in text.split("\n")] if text else []


def _load(stored: dict[str, Any]) -> OldArguments:
    replaced_at = datetime.fromisoformat(stored["replaced_at"])
    try:
        args, kwargs = arguments.view_text(stored["arguments"])
    except arguments.DeserializationError:
        # The reason why they were replaced, perhaps.
        return OldArguments([stored["arguments"]], {}, replaced_at)
    return OldArguments(args, kwargs, replaced_at)
