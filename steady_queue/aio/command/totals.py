"""Totals: how many tasks the processes of the command have ended, each minute and at the stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.supervisor.child import ProcessFigures
from steady_queue.events.wording import duration_text, rounded_rate

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.aio.timing import Clock
    from steady_queue.events import Event, Events

#: How often the sums are logged, if tasks have ended.
SUM_SECONDS = 60.0


class ExitCounter:
    """Subscribes to events: counts tasks whose process exited before they had ended, which no process reports."""

    KINDS = (events.ChildPruned, events.JobsFailed)

    def __init__(self, process_id: UUID) -> None:
        self.figures = ProcessFigures()
        self._process_id = process_id

    def __call__(self, event: Event) -> None:
        if isinstance(event, events.ChildPruned):
            self.figures = self.figures.plus(ProcessFigures(failed=event.failed, released=event.released))
        elif isinstance(event, events.JobsFailed) and event.process_id == self._process_id:
            self.figures = self.figures.plus(ProcessFigures(failed=event.count))


class Totals:
    """Emits sums while the command runs, and the totals once when it has stopped."""

    def __init__(
        self,
        *,
        figures: Callable[[], ProcessFigures],
        events: Events,
        clock: Clock,
    ) -> None:
        self._figures = figures
        self._events = events
        self._clock = clock
        self._began_at = clock.monotonic()
        self._is_emitted = False

    async def run(self) -> None:
        before, since = self._figures(), self._clock.monotonic()
        while True:
            await asyncio.sleep(SUM_SECONDS)
            now, at = self._figures(), self._clock.monotonic()
            new = now.minus(before)
            if new.done or new.failed or new.released:
                self._events.emit(
                    events.TasksCounted(
                        done=new.done,
                        failed=new.failed,
                        released=new.released,
                        running=now.running,
                        seconds=at - since,
                        per_second=rounded_rate(new.done + new.failed, at - since),
                    )
                )
            before, since = now, at

    def emit_total(self) -> None:
        """Emit the totals; more than once does no harm."""
        if self._is_emitted:
            return
        self._is_emitted = True
        total, seconds = self._figures(), self._clock.monotonic() - self._began_at
        self._events.emit(
            events.CommandStopped(
                done=total.done,
                failed=total.failed,
                released=total.released,
                seconds=seconds,
                duration=duration_text(seconds),
                per_second=rounded_rate(total.done + total.failed, seconds),
            )
        )
