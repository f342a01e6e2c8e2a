"""Promotion by maintenance: blocked jobs whose key has a free slot, whatever stranded them.

Keys that are refused together are halved; of a key that is refused alone, the job that is refused is set aside.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.aio.splitting import REFUSED, split
from steady_queue.registry import limits_in_force
from steady_queue.store.burial import BATCH
from steady_queue.store.maintenance import promote_stranded as stranded_promoted
from steady_queue.store.promote import promotion
from steady_queue.store.set_aside import blocked_keys, first_blocked, promote_one, set_blocked_aside

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.aio.splitting import Run, Splitter
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

#: Jobs of one key that are promoted one by one in a turn, or set aside.
MOST_ALONE = 100


async def promote_stranded(run: Run, sql: Dialect, splitter: Splitter) -> int:
    """Promote every key that has blocked jobs; returns how many jobs that made ready."""
    total, after = 0, ""
    while True:
        try:
            count, next_key = await run(stranded_promoted(sql, after, limits_in_force))
        except REFUSED:
            keys = await run(blocked_keys(sql, after, BATCH))
            count = await _promote_apart(run, sql, splitter, keys)
            next_key = keys[-1] if len(keys) == BATCH else None
        total += count
        if next_key is None:
            return total
        after = next_key


async def _promote_apart(run: Run, sql: Dialect, splitter: Splitter, keys: Sequence[str]) -> int:
    counts: list[int] = []
    left: list[Exception] = []

    async def write(part: Sequence[str]) -> None:
        promoted = await run(promotion(sql, dict.fromkeys(part, 1), limits_in_force))
        counts.append(len(promoted))

    async def alone(key: str, _refusal: Exception) -> None:
        try:
            counts.append(await _promote_one_by_one(run, sql, splitter, key))
        except REFUSED as error:
            left.append(error)

    await split(keys, write, alone)
    if left:
        raise left[-1]
    return sum(counts)


async def _promote_one_by_one(run: Run, sql: Dialect, splitter: Splitter, key: str) -> int:
    """Until the key is full or has no blocked job, or for a while: the next turn goes on."""
    promoted = 0
    for _ in range(MOST_ALONE):
        job_id = await run(first_blocked(sql, key))
        if job_id is None:
            break
        try:
            if not await run(promote_one(sql, key, job_id, limits_in_force)):
                break
            promoted += 1
        except REFUSED as refusal:
            why = "the task could not be made ready; "
            await splitter.put_aside(job_id, why, refusal, partial(_set_aside, sql, job_id))
    return promoted


def _set_aside(sql: Dialect, job_id: UUID, error: ErrorReport, writes_errors: bool) -> Operation[bool]:
    return set_blocked_aside(sql, job_id, error, writes_errors=writes_errors)
