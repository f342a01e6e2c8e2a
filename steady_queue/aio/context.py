"""Context: the clock, the events and the outages that the services of one process share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steady_queue.aio.outage import Outage
    from steady_queue.aio.timing import Clock
    from steady_queue.events import Events


@dataclass(frozen=True, slots=True)
class Context:
    """Passed to every service."""

    clock: Clock
    events: Events
    outage: Outage
