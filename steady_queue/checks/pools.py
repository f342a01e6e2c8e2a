"""Pools: whether Django's own connection pools (PostgreSQL, OPTIONS["pool"]) have room for the tasks of a process.

The runtime has connections of its own beside them. From a pool come those that tasks use: one for each thread, and one
for each of the lanes that the ORM calls of async tasks share. A pool that is smaller makes tasks wait for each other,
and fail when they have waited for its timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steady_queue.configuration import Options, Worker

#: What psycopg_pool opens when it is told nothing, and then never more.
LEAST = 4


class SmallPool(NamedTuple):
    alias: str
    size: int
    needed: int


def small_pools(options: Options, *, in_one_loop: bool = False) -> Iterator[SmallPool]:
    """The pools of DATABASES that are smaller than what one process of ours may take from them."""
    needed = connections_needed(options, in_one_loop=in_one_loop)
    for alias in connections:
        size = pool_size(connections.settings[alias])
        if size is not None and size < needed:
            yield SmallPool(alias, size, needed)


def connections_needed(options: Options, *, in_one_loop: bool = False) -> int:
    """How many of Django's connections to one database the tasks of a process may use at once."""
    processes = [options.workers] if in_one_loop else [[worker] for worker in options.workers]
    return max(map(_of_process, processes), default=0)


def _of_process(workers: Sequence[Worker]) -> int:
    lanes = max((worker.orm_lanes for worker in workers if worker.coroutines), default=0)
    return sum(worker.threads for worker in workers) + lanes


def pool_size(settings: Mapping[str, Any]) -> int | None:
    """How many connections the pool of a database may open; None without a pool, or one whose size is nonsense."""
    pool = settings.get("OPTIONS", {}).get("pool")
    if not pool or settings.get("ENGINE") == "django.db.backends.oracle":
        return None
    given = pool if isinstance(pool, dict) else {}
    size = given.get("max_size") or given.get("min_size", LEAST)
    return size if isinstance(size, int) else None
