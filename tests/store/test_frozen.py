"""A process that is frozen amid its statements keeps the others from nothing for long."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import pytest

from steady_queue.aio.reports import report
from steady_queue.processes import ProcessPrunedError
from steady_queue.store.burial import bury
from steady_queue.store.process import heartbeat
from steady_queue.store.statement import Operation
from tests.support.commands import printed_by, prints, python
from tests.support.jobs import job
from tests.support.scripts import REPOSITORY, SETUP
from tests.support.stores import SyncStore
from tests.support.tables import counts
from tests.support.threads import together
from tests.support.waiting import aside, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.store.burial import Buried
    from steady_queue.store.statement import Flow
    from tests.support.stores import Store

T = TypeVar("T")


def prune(alias: str, process_id: UUID) -> Buried | None:
    """Take this process for dead, on another connection."""

    def other() -> Buried | None:
        store = SyncStore(alias)
        error = report(ProcessPrunedError, "no heartbeat")
        return store.run(bury(store.sql, me=uuid4(), report=lambda _: error, only=[process_id]))

    (found,) = together(other)
    return found


def interrupted(operation: Operation[T], after_first: Callable[[], object]) -> Operation[T]:
    """The operation of a process that is frozen after its first statement: meanwhile others do something."""

    def flow() -> Flow[T]:
        statements = operation.flow()
        rows = yield next(statements)
        after_first()
        try:
            statement = statements.send(rows)
            while True:
                statement = statements.send((yield statement))
        except StopIteration as done:
            result: T = done.value
            return result

    return Operation(operation.name, flow, operation.transaction)


def test_a_process_that_is_frozen_in_its_heartbeat_is_pruned(store: Store) -> None:
    worker = store.worker()
    store.claimed(job(), process_id=worker)
    pruned: list[Buried | None] = []
    beat = interrupted(heartbeat(store.sql, worker), lambda: pruned.append(prune(store.alias, worker)))
    assert store.run(beat) is False
    (found,) = pruned
    assert found is not None
    assert found.process.id == worker
    assert counts(store.alias) == {"failed": 1}


#: A process of the runtime's that is frozen while it maintains, and what it makes of that when it is thawed.
FREEZES = """
import os, signal
from steady_queue.databases import open_async
from steady_queue.errors import StoreUnavailable
from steady_queue.store.statement import Operation

async def main():
    driver = open_async({alias!r}, size=1)

    def freezes():
        assert (yield from driver.sql.try_maintenance())
        print("maintains", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        assert (yield from driver.sql.try_maintenance())

    try:
        await driver.run(Operation("freezes", freezes))
    except StoreUnavailable as error:
        print("unavailable, applied:", error.applied, flush=True)
    print("maintains again:", await driver.run(Operation("maintain", driver.sql.try_maintenance)), flush=True)
    await driver.close()

asyncio.run(main())
"""


@pytest.mark.anyio
@pytest.mark.only_on("postgres", "mariadb")  # on SQLite a frozen writer holds up everybody
async def test_a_process_that_is_frozen_while_it_maintains_loses_its_transaction(database: str) -> None:
    text = SETUP.format(alias=database) + FREEZES.format(alias=database)
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

    async def is_maintained() -> bool:
        return await aside(maintains, database)

    with python("-W", "error", "-c", text, environ=environ) as process:
        await prints(process, "maintains")
        await until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        await until(is_maintained, "others can maintain")
        process.send_signal(signal.SIGCONT)
        printed = await printed_by(process)
    assert printed.splitlines() == ["unavailable, applied: no", "maintains again: True"]


def maintains(alias: str) -> bool:
    store = SyncStore(alias)
    return store.run(Operation("maintain", store.sql.try_maintenance))
