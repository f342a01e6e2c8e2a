"""Queue: size, latency, pause, resume, clear."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone
from django.utils.timesince import timesince

from steady_queue import actions
from steady_queue.actions.filters import check_queue_name
from steady_queue.db.transactions import arun, arun_one, run, run_one
from steady_queue.store.operations.actions import queues

if TYPE_CHECKING:
    from steady_queue.db.transactions import Scope, Steps


@dataclass(frozen=True, slots=True, order=True)
class Queue:
    """A queue by its name; it need not have any tasks. Names that begin with `a` are the async forms.

    Every property queries the database each time it is accessed: nothing is cached.
    """

    name: str

    def __post_init__(self) -> None:
        check_queue_name(self.name)

    @classmethod
    def all(cls) -> list[Queue]:
        """The queues that have ready tasks or are paused, by name."""
        return [cls(name) for name in run(_names)]

    @classmethod
    async def aall(cls) -> list[Queue]:
        return [cls(name) for name in await arun(_names)]

    @property
    def size(self) -> int:
        """The number of ready tasks; scheduled, blocked and running tasks do not count."""
        return run_one(lambda sql: queues.size(sql, self.name))

    async def asize(self) -> int:
        return await arun_one(lambda sql: queues.size(sql, self.name))

    @property
    def latency(self) -> timedelta | None:
        """For how long the oldest of the next tasks has been due; None when no task is ready.

        The next tasks are the first of each priority, in the async and in the thread lane.
        """
        return run_one(lambda sql: queues.latency(sql, self.name))

    async def alatency(self) -> timedelta | None:
        return await arun_one(lambda sql: queues.latency(sql, self.name))

    @property
    def human_latency(self) -> str:
        """The latency in words, in the active language; empty when no task is ready."""
        return _in_words(self.latency)

    async def ahuman_latency(self) -> str:
        return _in_words(await self.alatency())

    @property
    def is_paused(self) -> bool:
        """Whether the queue is paused: workers claim none of its tasks."""
        return bool(run_one(lambda sql: queues.find_paused_queues(sql, self.name)))

    async def ais_paused(self) -> bool:
        paused = await arun_one(lambda sql: queues.find_paused_queues(sql, self.name))
        return bool(paused)

    def pause(self) -> bool:
        """Stop workers from claiming its tasks; returns whether it was not paused before."""
        return actions.pause(self.name)

    async def apause(self) -> bool:
        return await actions.apause(self.name)

    def resume(self) -> bool:
        """Let workers claim its tasks again; returns whether it was paused."""
        return actions.resume(self.name)

    async def aresume(self) -> bool:
        return await actions.aresume(self.name)

    def clear(self) -> int:
        """Discard all its ready tasks; returns how many."""
        return actions.clear_queue(self.name)

    async def aclear(self) -> int:
        return await actions.aclear_queue(self.name)

    def __str__(self) -> str:
        return self.name


def _in_words(latency: timedelta | None) -> str:
    if latency is None:
        return ""
    if latency < timedelta(minutes=1):
        return f"{latency.total_seconds():.0f} s"
    now = timezone.now()
    return timesince(now - latency, now)


def _names(scope: Scope) -> Steps[list[str]]:
    ready: list[str] = yield queues.find_queue_names(scope.sql)
    paused: list[str] = yield queues.find_paused_queues(scope.sql)
    return sorted({*ready, *paused})
