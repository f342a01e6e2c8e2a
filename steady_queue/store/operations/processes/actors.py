"""Actors: what the row of a process says that it runs, such as a worker and its queues. No statements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from steady_queue.store.queue_selection import QueueSelection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steady_queue.store.job import Lane


def parse_actors(metadata: str) -> list[Mapping[str, Any]]:
    """The actors of a process, as far as the metadata of its row lists them in the format of this version."""
    try:
        actors = json.loads(metadata)["actors"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [actor for actor in actors if isinstance(actor, dict)] if isinstance(actors, list) else []


def serves(actor: Mapping[str, Any], queue: str, lane: Lane) -> bool:
    """Whether the actor is a worker that runs the jobs of a queue and lane."""
    patterns: Any = actor.get("queues")
    excluded: Any = actor.get("exclude_queues", [])
    for names in (patterns, excluded):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return False
    serves_queue = QueueSelection.of(patterns, excluded).serves(queue)
    return actor.get("kind") == "worker" and bool(actor.get(lane.name.lower())) and serves_queue
