"""Jobs that are stored without a task object, and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steady_queue.arguments import dumps
from steady_queue.store.job import Lane
from tests.shop.tasks import add, greet
from tests.support.databases.tables import count, row
from tests.support.runtime import in_thread, until, values
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob


async def still_works() -> None:
    """Check that both lanes, each with a capacity of one, run the next tasks."""
    assert await values(await add.aenqueue(1), await greet.aenqueue("Ada")) == [1, "Hello, Ada!"]


def rows(**options: Any) -> list[NewJob]:
    """A job with these options for each lane."""
    return [job(**{"lane": lane, "arguments": dumps([], {}), **options}) for lane in (Lane.ASYNC, Lane.THREAD)]


async def failures(alias: str, *jobs: NewJob, before: int = 0) -> list[str]:
    """Enqueue the jobs and wait until all have failed; return the exception of each."""

    def errors() -> list[str]:
        return [found["exception_class"] for one in jobs if (found := row(alias, "failedexecution", one.id))]

    async def all_failed() -> bool:
        return await in_thread(count, alias, "failedexecution") == before + len(jobs)

    await in_thread(SyncStore(alias).enqueue, *jobs)
    await until(all_failed, timeout_seconds=10)
    return await in_thread(errors)
