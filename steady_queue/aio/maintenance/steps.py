"""Steps of a maintenance turn: each fails alone.

A failing step is reported by an event, and in the row of this process, which `health` reads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from steady_queue import events
from steady_queue.errors import StoreError
from steady_queue.store.operations.processes.registration import write_metadata
from steady_queue.store.outcome import report_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.aio.deadline_driver import DeadlineDriver
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: How long a statement of a step may take.
STEP_TIMEOUT_SECONDS = 10.0
#: Seconds between two events for the same failing step.
REPEAT_SECONDS = 60.0
#: How long the database may take to store which steps fail before it counts as lost.
STORE_TIMEOUT_SECONDS = 2.0
#: How many characters of an error are stored.
STORED_CHARACTERS = 300


class StepSkipped(Exception):
    """Raised by a step that has done nothing for now: it has neither failed nor recovered."""


class StepDriver:
    """Runs the operations of maintenance, each within STEP_TIMEOUT_SECONDS unless its caller sets another limit."""

    def __init__(self, driver: DeadlineDriver) -> None:
        self.sql: Dialect = driver.sql
        self._driver = driver

    async def run(self, operation: Operation[T], *, within: float | None = None) -> T:
        return await self._driver.run(operation, within=STEP_TIMEOUT_SECONDS if within is None else within)


@dataclass(slots=True)
class Failing:
    """A step whose last tries failed: how many, and since when by the process's clock and by the database's."""

    began: float
    emitted_at: float | None = None
    times: int = 0
    since: str = ""
    error: str = ""


class StepRunner:
    """Runs the steps of one process, and remembers those that fail."""

    def __init__(self, *, process_id: UUID, metadata: str, driver: StepDriver, context: Context) -> None:
        self._process_id = process_id
        self._metadata: dict[str, Any] = json.loads(metadata)
        self._driver = driver
        self._clock = context.clock
        self._events = context.events
        self._failing: dict[str, Failing] = {}

    async def run(self, name: str, step: Callable[[], Awaitable[T]]) -> T | None:
        """Return what the step returns, or None if it failed or was skipped. Raises only if the database is lost."""
        try:
            result = await step()
        except StepSkipped:
            return None
        except Exception as error:
            await self._failed(name, error)
            return None
        await self.succeeded(name)
        return result

    async def succeeded(self, name: str) -> None:
        """Record that the step has nothing left to do."""
        failing = self._failing.pop(name, None)
        if failing is None:
            return
        try:
            await self._write_failing_steps()
        except StoreError:
            self._failing[name] = failing  # the row still lists it
            raise
        seconds = self._clock.monotonic() - failing.began
        self._events.emit(events.MaintenanceStepRecovered(step=name, times=failing.times, seconds=seconds))

    async def _failed(self, name: str, error: Exception) -> None:
        now = self._clock.monotonic()
        before = self._failing.get(name)
        failing = self._failing.setdefault(name, Failing(now))
        failing.error = _short(error)
        failing.times += 1
        try:
            # If this write fails as well, the database is lost: then the outage is reported, not this step.
            await self._write_failing_steps()
        except StoreError:
            failing.times -= 1
            if before is None:
                del self._failing[name]
            raise error from None
        if failing.emitted_at is None or now - failing.emitted_at >= REPEAT_SECONDS:
            failing.emitted_at = now
            text = str(error) if isinstance(error, StoreError) else report_of(error).traceback
            self._events.emit(events.MaintenanceStepFailed(step=name, error=text, times=failing.times, exception=error))

    async def _write_failing_steps(self) -> None:
        """Write into this process's row which steps fail."""
        operation = write_metadata(self._driver.sql, self._process_id, self._describe)
        await self._driver.run(operation, within=STORE_TIMEOUT_SECONDS)

    def _describe(self, now: datetime) -> str:
        if not self._failing:
            return json.dumps(self._metadata)
        steps = {}
        for name, failing in self._failing.items():
            failing.since = failing.since or now.isoformat(sep=" ", timespec="seconds")
            steps[name] = {"times": failing.times, "since": failing.since, "error": failing.error}
        return json.dumps({**self._metadata, "maintenance": steps})


def _short(error: Exception) -> str:
    """Return the error in one line."""
    found = report_of(error)
    text = found.message if isinstance(error, StoreError) else f"{found.exception_class}: {found.message}"
    return " ".join(text.split())[:STORED_CHARACTERS]
