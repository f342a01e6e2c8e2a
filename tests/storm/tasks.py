"""What runs in the storm. Each task writes to the attempt log, and returns the nonce of the attempt that ended."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from steady_queue import task
from steady_queue.concurrency import limits_concurrency
from tests.storm import attempt_log
from tests.storm.worker_program import SHUTDOWN_SECONDS

if TYPE_CHECKING:
    from random import Random

    from steady_queue.jobs.compat import TaskContext
    from steady_queue.jobs.definition.task import TaskCall

#: Waits are made of so long steps, in seconds: a task that was frozen in one still has to go through the others.
STEP_SECONDS = 0.05


async def _wait(context: TaskContext, kind: str, seconds: float) -> str:
    job, nonce = str(context.task_result.id), uuid4().hex
    attempt_log.write("begin", job=job, nonce=nonce, kind=kind)
    try:
        for _ in range(round(seconds / STEP_SECONDS)):
            await asyncio.sleep(STEP_SECONDS)
        await asyncio.sleep(seconds % STEP_SECONDS)
    except asyncio.CancelledError:
        attempt_log.write("stopped", job=job, nonce=nonce, kind=kind)
        raise
    attempt_log.write("end", job=job, nonce=nonce, kind=kind)
    return nonce


def _block(context: TaskContext, kind: str, seconds: float) -> str:
    job, nonce = str(context.task_result.id), uuid4().hex
    attempt_log.write("begin", job=job, nonce=nonce, kind=kind)
    for _ in range(round(seconds / STEP_SECONDS)):
        time.sleep(STEP_SECONDS)
    time.sleep(seconds % STEP_SECONDS)
    attempt_log.write("end", job=job, nonce=nonce, kind=kind)
    return nonce


@task(takes_context=True)
async def waits(context: TaskContext, seconds: float) -> str:
    return await _wait(context, "async", seconds)


@task(takes_context=True)
def blocks(context: TaskContext, seconds: float) -> str:
    return _block(context, "sync", seconds)


@limits_concurrency(key=lambda seconds, account: account, to=1)
@task(takes_context=True)
async def waits_alone(context: TaskContext, seconds: float, account: int) -> str:
    return await _wait(context, "async, 1 at once", seconds)


@limits_concurrency(key=lambda seconds, account: account, to=2)
@task(takes_context=True)
def blocks_in_pairs(context: TaskContext, seconds: float, account: int) -> str:
    return _block(context, "sync, 2 at once", seconds)


@limits_concurrency(key=lambda seconds, account: account, to=3)
@task(takes_context=True)
async def waits_in_threes(context: TaskContext, seconds: float, account: int) -> str:
    return await _wait(context, "async, 3 at once", seconds)


@limits_concurrency(key="all", to=10)
@task(takes_context=True)
async def waits_in_tens(context: TaskContext, seconds: float) -> str:
    return await _wait(context, "async, 10 at once", seconds)


def limited_call(random: Random) -> TaskCall:
    """A call of a task of which 1, 2 or 10 may run at once: so many and so long that the limits are reached."""
    kind = random.choices(["alone", "pairs", "tens"], [25, 25, 50])[0]
    if kind == "alone":
        return waits_alone.bind(random.uniform(0.0, 0.1), account=random.randrange(4))
    if kind == "pairs":
        return blocks_in_pairs.bind(random.uniform(0.0, 0.2), account=random.randrange(3))
    return waits_in_tens.bind(random.uniform(0.2, 0.9))


def any_call(random: Random) -> TaskCall:
    """A call of one of the tasks: mostly short, some so long that a fault certainly happens during them."""
    kind = random.choices(["short", "long", "sync", "alone", "pairs", "threes"], [35, 10, 20, 12, 10, 13])[0]
    makers: dict[str, Any] = {
        "short": lambda: waits.bind(random.uniform(0.0, 0.5)),
        "long": lambda: waits.bind(random.uniform(1.5, 4.0)),
        "sync": lambda: blocks.bind(_length(random, 0.0, 0.5)),
        "alone": lambda: waits_alone.bind(random.uniform(0.0, 0.2), account=random.randrange(4)),
        "pairs": lambda: blocks_in_pairs.bind(_length(random, 0.0, 0.2), account=random.randrange(3)),
        "threes": lambda: waits_in_threes.bind(random.uniform(0.0, 0.4), account=random.randrange(2)),
    }
    call: TaskCall = makers[kind]()
    return call


def _length(random: Random, least: float, most: float) -> float:
    """Seconds in a thread, now and then more than the shutdown timeout."""
    return (
        random.uniform(SHUTDOWN_SECONDS + 0.2, 2 * SHUTDOWN_SECONDS)
        if random.random() < 0.07
        else random.uniform(least, most)
    )
