"""Machines with odd names."""

from __future__ import annotations

import socket

import pytest

from steady_queue.aio import running
from tests.shop.tasks import add
from tests.support.processes.process_rows import rows
from tests.support.runtime import aside, values, worker

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres")]


@pytest.mark.parametrize("name", ["José's laptop 😀", "a:b'\"%s\\;--", "x" * 300], ids=["letters", "signs", "length"])
async def test_a_process_works_whatever_its_machine_is_called(
    database: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    async with running(worker()) as process:
        result = await add.aenqueue(1)
        assert await values(result) == [1]
        assert result.worker_ids == [process.name]
        assert [row.hostname for row in await aside(rows, database)] == [name[:200]]
