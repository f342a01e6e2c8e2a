"""Steady Queue, as an application uses it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.calls import groups
from steady_queue import aenqueue_all, enqueue_all
from tests.shop.tasks import anything

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.calls import Call


def each(calls: Sequence[Call]) -> None:
    for args, kwargs in calls:
        anything.enqueue(*args, **kwargs)


async def aeach(calls: Sequence[Call]) -> None:
    for args, kwargs in calls:
        await anything.aenqueue(*args, **kwargs)


async def atogether(calls: Sequence[Call]) -> None:
    for group in groups(calls):
        await asyncio.gather(*(anything.aenqueue(*args, **kwargs) for args, kwargs in group))


def bulk(calls: Sequence[Call]) -> None:
    enqueue_all(anything.bind(*args, **kwargs) for args, kwargs in calls)


async def abulk(calls: Sequence[Call]) -> None:
    await aenqueue_all(anything.bind(*args, **kwargs) for args, kwargs in calls)
