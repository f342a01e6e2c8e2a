"""Heartbeats of a process that stops."""

from __future__ import annotations

from uuid import uuid4

import pytest

from steady_queue.aio.context import Context
from steady_queue.aio.deadline_driver import DeadlineDriver
from steady_queue.aio.lease import Lease
from steady_queue.aio.outage import Outage
from steady_queue.aio.process.heartbeat import Heartbeat
from steady_queue.aio.timing import SystemClock
from steady_queue.db.aliases import open_async
from steady_queue.store.operations.processes.registration import NewProcess, deregister
from tests.support.databases.tables import count
from tests.support.runtime import EmittedEvents
from tests.support.wait import in_thread

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_process_that_left_is_not_registered_again_by_its_last_beat(database: str, leaves: bool) -> None:
    clock, events = SystemClock(), EmittedEvents()
    driver = DeadlineDriver(open_async(database, size=1), 30.0)
    process = NewProcess(uuid4(), "worker", "worker", 4711, "somewhere")
    lease = Lease(alive_seconds=60, clock=clock)

    async def do_nothing() -> None:
        pass

    heartbeat = Heartbeat(
        process=process,
        interval=0.01,
        driver=driver,
        lease=lease,
        on_lease_lost=lambda: None,
        on_pruned=do_nothing,
        on_request=lambda: None,
        polled_ago=None,
        measure=lambda late_seconds: "{}",
        on_success=lambda now: None,
        context=Context(clock, events, Outage(clock=clock, events=events)),
    )
    await heartbeat.register()
    try:
        if leaves:
            await heartbeat.stop()
        await driver.run(deregister(driver.sql, process.id))
        await heartbeat._beat()  # that of its service, which runs on while the process stops
        assert await in_thread(count, database, "process") == (0 if leaves else 1)
    finally:
        await driver.close()
