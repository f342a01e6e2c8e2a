"""A process that is frozen between its statements does not block other processes for long."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import pytest

from steady_queue.processes import ProcessPrunedError
from steady_queue.store.operations.processes.prune import prune_process
from steady_queue.store.operations.processes.registration import heartbeat
from steady_queue.store.outcome import report
from steady_queue.store.statement import Operation
from tests.support.databases.tables import counts, query
from tests.support.processes.commands import python, read_output, wait_for_output
from tests.support.processes.scripts import REPOSITORY, SETUP
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore
from tests.support.threads import together
from tests.support.wait import in_thread, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from steady_queue.store.operations.processes.prune import PrunedProcess
    from steady_queue.store.statement import Flow
    from tests.support.processes.commands import Command
    from tests.support.store.stores import Store

T = TypeVar("T")


def prune(alias: str, process_id: UUID) -> PrunedProcess | None:
    """Prune this process, on another connection."""

    def other() -> PrunedProcess | None:
        store = SyncStore(alias)
        error = report(ProcessPrunedError, "no heartbeat")
        return store.run(prune_process(store.sql, me=uuid4(), report=lambda _: error, only=[process_id]))

    (found,) = together(other)
    return found


def interrupted(operation: Operation[T], after_first: Callable[[], object]) -> Operation[T]:
    """The operation of a process that is frozen after its first statement: meanwhile another connection acts."""

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
    pruned: list[PrunedProcess | None] = []
    beat = interrupted(heartbeat(store.sql, worker), lambda: pruned.append(prune(store.alias, worker)))
    assert not store.run(beat).is_known
    (found,) = pruned
    assert found is not None
    assert found.process.id == worker
    assert counts(store.alias) == {"failed": 1}


#: A process of the runtime's that is frozen while it maintains, and what it does when it is thawed.
MAINTAINS = """
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
"""


@pytest.mark.anyio
@pytest.mark.only_on("postgres", "mariadb")  # on SQLite a frozen writer blocks every other writer
async def test_a_process_that_is_frozen_while_it_maintains_loses_its_transaction(database: str) -> None:
    async def is_maintained() -> bool:
        return await in_thread(maintains, database)

    with program(database, MAINTAINS) as process:
        await wait_for_output(process, "maintains")
        await until(lambda: is_frozen(process.pid))
        await until(is_maintained, "others can maintain")
        process.send_signal(signal.SIGCONT)
        printed = await read_output(process)
    assert printed.splitlines() == ["unavailable, applied: no", "maintains again: True"]


def maintains(alias: str) -> bool:
    store = SyncStore(alias)
    return store.run(Operation("maintain", store.sql.try_maintenance))


#: The same of one that is frozen before it has read all that it claims.
CLAIMS = """
from uuid import UUID
from steady_queue.store.operations.claim import ClaimRequest, claim_from_all
from steady_queue.store.job import Lane

async def main():
    driver = open_async({alias!r}, size=1)
    claim = claim_from_all(driver.sql, ClaimRequest(UUID({worker!r}), Lane.ASYNC, 20))
    await driver.run(claim)  # nothing yet: the statement is prepared
    print("prepared", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    claiming = asyncio.create_task(driver.run(claim))
    for _ in range(10):  # it sends the statement, and reads the answer in pieces
        await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        await claiming
    except StoreUnavailable:
        print("unavailable", flush=True)
    print("claims", len((await driver.run(claim)).claims), flush=True)
    await driver.close()
"""


@pytest.mark.anyio
@pytest.mark.only_on("postgres")  # MariaDB's own limit for this is a minute
async def test_a_process_that_is_frozen_while_it_receives_its_claims_loses_them(database: str) -> None:
    jobs = [job(arguments="x" * 1_000_000) for _ in range(20)]
    worker = await in_thread(lambda: SyncStore(database).worker())

    async def others_can_claim() -> bool:
        claims = await in_thread(lambda: SyncStore(database).claim(SyncStore(database).worker("other"), 20))
        return len(claims) == 20

    with program(database, CLAIMS, worker=str(worker)) as process:
        await wait_for_output(process, "prepared")
        await until(lambda: is_frozen(process.pid))
        await in_thread(lambda: SyncStore(database).enqueue(*jobs))
        process.send_signal(signal.SIGCONT)
        await until(lambda: in_thread(is_sending, database))
        await until(lambda: is_frozen(process.pid))
        assert await in_thread(counts, database) == {"ready": 20}
        await until(others_can_claim)
        process.send_signal(signal.SIGCONT)
        printed = await read_output(process)
    assert printed.splitlines() == ["unavailable", "claims 0"]


def is_sending(alias: str) -> bool:
    """Whether the server waits for a client to read what it sends."""
    text = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite' AND query LIKE '%%claimedexecution%%'"
    )
    return query(alias, text) == [(1,)]


@contextmanager
def program(alias: str, text: str, **values: str) -> Iterator[Command]:
    """A program with a coroutine function `main`, in a process of its own."""
    source = f"{SETUP}{IMPORTS}{text}asyncio.run(main())\n".format(alias=alias, **values)
    with python("-W", "error", "-c", source, environ={**os.environ, "PYTHONPATH": str(REPOSITORY)}) as process:
        yield process


IMPORTS = """
import os, signal
from steady_queue.db.aliases import open_async
from steady_queue.errors import StoreUnavailable
from steady_queue.store.statement import Operation
"""


def is_frozen(process_id: int) -> bool:
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "T"
