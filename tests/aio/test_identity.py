"""The identity of a process: whether a registered process still exists, and odd host names."""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime

import pytest

from steady_queue.aio import process_identity, running
from steady_queue.aio.process_identity import describe, is_gone, start_time
from steady_queue.store.operations.processes.prune import RegisteredProcess
from tests.shop.tasks import add
from tests.support.processes.process_rows import rows
from tests.support.runtime import in_thread, values, worker

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres")]


def registered(pid: int, metadata: str) -> RegisteredProcess:
    import uuid

    return RegisteredProcess(uuid.uuid4(), "name", pid, "host", metadata, None, datetime.now(UTC))


def test_this_process_is_not_gone_and_another_process_with_its_id_is() -> None:
    mine = describe([])
    assert not is_gone(registered(os.getpid(), mine))
    assert is_gone(registered(os.getpid(), mine.replace(str(start_time(os.getpid())), "1")))


@pytest.mark.parametrize("metadata", ["", "{}", "[]", "null", "nonsense", '{"boot": "other", "started": "1"}'])
def test_in_doubt_a_process_is_not_gone(metadata: str) -> None:
    assert not is_gone(registered(2**22 + 1, metadata))


def test_a_process_that_the_system_hides_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with /proc mounted so that users see only their own processes."""
    mine = describe([])
    monkeypatch.setattr(process_identity, "start_time", lambda pid: None)
    assert not is_gone(registered(os.getppid(), mine))
    assert is_gone(registered(2**22 + 1, mine))


@pytest.mark.parametrize("name", ["José's laptop 😀", "a:b'\"%s\\;--", "x" * 300], ids=["letters", "signs", "length"])
async def test_a_process_works_with_any_host_name(database: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    async with running(worker()) as process:
        result = await add.aenqueue(1)
        assert await values(result) == [1]
        assert result.worker_ids == [process.name]
        assert [row.hostname for row in await in_thread(rows, database)] == [name[:200]]
