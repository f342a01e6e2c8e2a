"""A queue, as people look after it: what waits in it and for how long, and whether it rests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone
from django.utils.timesince import timesince

from steady_queue import actions
from steady_queue.actions.filters import a_queue
from steady_queue.db.transactions import arun, run
from steady_queue.store.operations import queues

if TYPE_CHECKING:
    from steady_queue.db.transactions import Desk, Errand, Steps


@dataclass(frozen=True, slots=True, order=True)
class Queue:
    """A queue by its name; it need not have any tasks. What begins with `a` is for async code.

    Every property asks the database anew: nothing is remembered that may have changed.
    """

    name: str

    def __post_init__(self) -> None:
        a_queue(self.name)

    @classmethod
    def all(cls) -> list[Queue]:
        """The queues that have ready tasks or are paused, by name."""
        return [cls(name) for name in run(_names)]

    @classmethod
    async def aall(cls) -> list[Queue]:
        return [cls(name) for name in await arun(_names)]

    @property
    def size(self) -> int:
        """How many tasks are ready in it; those scheduled, blocked or running do not count."""
        return run(_size(self.name))

    async def asize(self) -> int:
        return await arun(_size(self.name))

    @property
    def latency(self) -> timedelta | None:
        """How long the longest waiting of the tasks next in line has been due; None when none is ready.

        Next in line are the first of each priority, among the async and among the sync tasks.
        """
        return run(_latency(self.name))

    async def alatency(self) -> timedelta | None:
        return await arun(_latency(self.name))

    @property
    def human_latency(self) -> str:
        """The latency in words, in the language that is active; empty when none is ready."""
        return _in_words(self.latency)

    async def ahuman_latency(self) -> str:
        return _in_words(await self.alatency())

    @property
    def is_paused(self) -> bool:
        """Whether workers take nothing from it."""
        return run(_is_paused(self.name))

    async def ais_paused(self) -> bool:
        return await arun(_is_paused(self.name))

    def pause(self) -> bool:
        """Let workers take nothing from it; returns whether that is new."""
        return actions.pause(self.name)

    async def apause(self) -> bool:
        return await actions.apause(self.name)

    def resume(self) -> bool:
        """Let workers take tasks from it again; returns whether that is new."""
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


def _names(desk: Desk) -> Steps[list[str]]:
    ready: list[str] = yield queues.find_queue_names(desk.sql)
    paused: list[str] = yield queues.find_paused_queues(desk.sql)
    return sorted({*ready, *paused})


def _size(name: str) -> Errand[int]:
    def errand(desk: Desk) -> Steps[int]:
        size: int = yield queues.size(desk.sql, name)
        return size

    return errand


def _latency(name: str) -> Errand[timedelta | None]:
    def errand(desk: Desk) -> Steps[timedelta | None]:
        latency: timedelta | None = yield queues.latency(desk.sql, name)
        return latency

    return errand


def _is_paused(name: str) -> Errand[bool]:
    def errand(desk: Desk) -> Steps[bool]:
        return bool((yield queues.find_paused_queues(desk.sql, name)))

    return errand
