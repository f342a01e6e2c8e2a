"""Enqueues with Steady Queue, as an application does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.enqueue.timing import split
from steady_queue import aenqueue_all, enqueue_all
from tests.shop.tasks import anything

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.enqueue.timing import Call


def one_by_one(calls: Sequence[Call]) -> None:
    for args, kwargs in calls:
        anything.enqueue(*args, **kwargs)


async def aone_by_one(calls: Sequence[Call]) -> None:
    for args, kwargs in calls:
        await anything.aenqueue(*args, **kwargs)


async def aconcurrently(calls: Sequence[Call]) -> None:
    for group in split(calls):
        await asyncio.gather(*(anything.aenqueue(*args, **kwargs) for args, kwargs in group))


def bulk(calls: Sequence[Call]) -> None:
    enqueue_all(anything.bind(*args, **kwargs) for args, kwargs in calls)


async def abulk(calls: Sequence[Call]) -> None:
    await aenqueue_all(anything.bind(*args, **kwargs) for args, kwargs in calls)
