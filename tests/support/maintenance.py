"""Maintenance as tests run it: one turn at a time, in a process that does nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steady_queue.configuration import Options
from steady_queue.store.job import Lane
from tests.support.databases.tables import query
from tests.support.runtime import error_of, until, wait_for_results, worker
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.aio import Process
    from steady_queue.jobs.compat import TaskResult
    from steady_queue.store.job import NewJob

#: Runs nothing but maintenance, which the test calls.
IDLE = Options(workers=[], dispatchers=worker().dispatchers)
LONG_AGO = "2020-01-01 00:00:00"
REFUSED, PRUNED = "steady_queue.errors.StoreDataError", "steady_queue.processes.ProcessPrunedError"


def register_stale_process(alias: str, limit: int = 100, name: str = "other") -> UUID:
    """Register a process that has claimed the ready jobs and whose last heartbeat is old."""
    store = SyncStore(alias)
    process_id = store.worker(name)
    assert store.claim(process_id, limit, lane=Lane.THREAD)
    query(alias, f"UPDATE steady_queue_process SET last_heartbeat_at = '{LONG_AGO}' WHERE name = %s", name)
    return process_id


def store_finished_jobs(alias: str, *jobs: NewJob) -> None:
    """Store jobs that finished long ago."""
    SyncStore(alias).enqueue(*jobs)
    query(alias, "DELETE FROM steady_queue_readyexecution")
    query(alias, f"UPDATE steady_queue_job SET finished_at = '{LONG_AGO}.000000'")


async def run_maintenance_turn(process: Process) -> None:
    """Run one turn of maintenance in a process that may prune others."""
    await until(lambda: process.services.heartbeat.is_steady)
    await process.services.maintenance.turn()


async def errors_of(*results: TaskResult[Any]) -> list[str]:
    return [error_of(result) for result in await wait_for_results(*results)]
