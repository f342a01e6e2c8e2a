"""An idle process sends few statements to its database."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from steady_queue.aio import listener, running
from steady_queue.aio.maintenance import maintenance
from steady_queue.aio.worker import polling
from steady_queue.configuration import Dispatcher, Options
from tests.support.runtime import until

if TYPE_CHECKING:
    from tests.support.servers.proxy import Proxy

pytestmark = pytest.mark.anyio

#: Every pause is so many times shorter, so that a few seconds show what happens in a longer time.
FASTER = 8.0
SECONDS = 3.0


@pytest.mark.only_on("postgres")
async def test_an_idle_process_makes_at_most_two_statements_a_second(
    database: str, proxied: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "LISTENING_SECONDS", polling.LISTENING_SECONDS / FASTER)
    monkeypatch.setattr(maintenance, "INTERVAL_SECONDS", maintenance.INTERVAL_SECONDS / FASTER)
    monkeypatch.setattr(listener, "PROBE_INTERVAL_SECONDS", listener.PROBE_INTERVAL_SECONDS / FASTER)
    dispatcher = Dispatcher(polling_interval=Dispatcher().polling_interval / FASTER)
    async with running(Options(dispatchers=[dispatcher]), alias=proxied) as process:
        await until(
            lambda: (
                process.services.is_listening()
                and process.services.workers[0]._polling._step >= len(polling.AFTER_WORK_SECONDS)
            )
        )
        # After that every statement is known to the server.
        await until(lambda: process.services.maintenance._turns >= 2)
        before, began = proxy.requests, time.monotonic()
        await asyncio.sleep(SECONDS)
        rate = (proxy.requests - before) / (time.monotonic() - began) / FASTER
    assert rate <= 2
