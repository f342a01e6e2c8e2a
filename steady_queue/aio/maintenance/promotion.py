"""Promotion by maintenance: makes blocked jobs ready whose key has a free slot.

Keys that are rejected together are halved; of a key that is rejected alone, the job that is rejected is set aside.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.aio.maintenance.batch_splitting import REJECTED, split
from steady_queue.jobs.registry import limits_in_force
from steady_queue.store.operations.maintenance.set_aside import set_blocked_aside
from steady_queue.store.operations.maintenance.steps import promote_stranded as promote_stranded_page
from steady_queue.store.operations.processes.prune import BATCH_ROWS
from steady_queue.store.operations.promote import find_blocked_keys, find_next_blocked_job, promote, promote_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.aio.maintenance.batch_splitting import ClaimSplitter, Driver

#: Jobs of one key that are promoted one by one in a turn, or set aside.
MAX_JOBS_PER_KEY = 100


async def promote_stranded(driver: Driver, splitter: ClaimSplitter) -> tuple[int, Exception | None]:
    """Promote every key that has blocked jobs.

    Returns how many jobs that made ready, and the last error of a job that could not be set aside, if any.
    """
    total, rejection, after = 0, None, ""
    while True:
        try:
            count, next_key = await driver.run(promote_stranded_page(driver.sql, after, limits_in_force))
        except REJECTED:
            keys = await driver.run(find_blocked_keys(driver.sql, after, BATCH_ROWS))
            count, rejected = await _promote_in_parts(driver, splitter, keys)
            rejection = rejected or rejection
            next_key = keys[-1] if len(keys) == BATCH_ROWS else None
        total += count
        if next_key is None:
            return total, rejection
        after = next_key


async def _promote_in_parts(
    driver: Driver, splitter: ClaimSplitter, keys: Sequence[str]
) -> tuple[int, Exception | None]:
    counts: list[int] = []

    async def write(part: Sequence[str]) -> None:
        promoted = await driver.run(promote(driver.sql, dict.fromkeys(part, 1), limits_in_force))
        counts.append(len(promoted))

    async def alone(key: str, _rejection: Exception) -> None:
        # Until the key is full or has no blocked job, or for a while: the next turn continues.
        for _ in range(MAX_JOBS_PER_KEY):
            promoted = await _promote_next(driver, splitter, key)
            if promoted is None:
                break
            counts.append(promoted)

    rejections = await split(keys, write, alone)
    return sum(counts), rejections[-1] if rejections else None


async def _promote_next(driver: Driver, splitter: ClaimSplitter, key: str) -> int | None:
    """Promote one job and return how many were made ready; None if the key is full or has no blocked job."""
    job_id = await driver.run(find_next_blocked_job(driver.sql, key))
    if job_id is None:
        return None
    try:
        return 1 if await driver.run(promote_one(driver.sql, key, job_id, limits_in_force)) else None
    except REJECTED as rejection:
        why = "the task could not be made ready; "
        await splitter.fail_with_rejection(job_id, why, rejection, partial(set_blocked_aside, driver.sql, job_id))
        return 0
