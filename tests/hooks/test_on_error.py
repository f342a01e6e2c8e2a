"""`hooks.on_error`: errors inside the runtime are reported without delaying it, and are never fatal."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from steady_queue import events, hooks
from steady_queue.aio import running
from steady_queue.aio.maintenance.maintenance import Maintenance
from tests.shop import tasks as shop
from tests.support.runtime import until, values, wait_for_results, worker
from tests.support.tasks import recording

if TYPE_CHECKING:
    from tests.support.servers.proxy import Proxy

pytestmark = pytest.mark.anyio


def collect_errors() -> list[tuple[BaseException, str]]:
    calls: list[tuple[BaseException, str]] = []
    hooks.on_error(lambda error, origin: calls.append((error, origin)))
    return calls


async def test_a_service_that_raises_is_reported_and_goes_on(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = collect_errors()
    turns = 0

    async def broken(self: Maintenance) -> None:
        nonlocal turns
        turns += 1
        raise LookupError("on purpose")

    monkeypatch.setattr(Maintenance, "turn", broken)
    monkeypatch.setattr("steady_queue.aio.maintenance.maintenance.INTERVAL_SECONDS", 0.01)
    async with running(worker()):
        await until(lambda: turns > 1)
        assert await values(await recording.rests.aenqueue("works")) == ["works"]
    (reported_once,) = calls
    assert (str(reported_once[0]), reported_once[1]) == ("on purpose", "maintenance")


async def test_hooks_subscribers_and_receivers_that_raise_are_reported(database: str) -> None:
    from steady_queue.signals import process_started

    calls = collect_errors()

    @hooks.worker.on_start
    def bad_hook(actor: hooks.Actor) -> None:
        raise LookupError("hook")

    @events.subscribe(only=[events.ProcessStarted])
    def bad_subscriber(event: events.Event) -> None:
        raise LookupError("subscriber")

    def bad_receiver(**fields: object) -> None:
        raise LookupError("receiver")

    process_started.connect(bad_receiver)
    try:
        async with running(worker()):
            pass
    finally:
        process_started.disconnect(bad_receiver)
    assert {str(error) for error, _ in calls} == {"hook", "subscriber", "receiver"}
    origins = " ".join(origin for _, origin in calls)
    assert "worker.on_start" in origins
    assert "bad_subscriber failed on ProcessStarted" in origins
    assert "bad_receiver of process_started" in origins


@pytest.mark.only_on("postgres", "mariadb")
async def test_an_outage_is_reported_once_by_each_service(database: str, proxied: str, proxy: Proxy) -> None:
    calls = collect_errors()
    back: list[events.Event] = []
    events.subscribe(back.append, only=[events.DatabaseRecovered])
    async with running(worker(), alias=proxied):
        proxy.go()
        await until(lambda: any("worker" in origin for _, origin in calls))
        proxy.come_back()
        await until(lambda: bool(back))
    origins = [origin for _, origin in calls]
    assert len(set(origins)) == len(origins)


async def test_a_task_that_fails_is_no_error_of_the_runtime_and_reaches_the_log_all_the_same(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    calls = collect_errors()
    async with running(worker()):
        await wait_for_results(await shop.fail.aenqueue("on purpose"))
    assert calls == []
    assert _failures(caplog)


async def test_without_any_hook_a_failed_task_reaches_the_log_with_its_traceback(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(worker()):
        await wait_for_results(await shop.fail.aenqueue("on purpose"))
    (record,) = _failures(caplog)
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


def _failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [r for r in caplog.records if r.levelno == logging.ERROR and "tasks" in r.name]


def fault(error: BaseException, where: str = "here") -> events.RuntimeFault:
    return events.RuntimeFault(where=where, error=str(error), exception=error)


async def test_the_same_error_from_the_same_place_is_reported_once_per_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = collect_errors()
    for _ in range(100):
        events.emit(fault(ValueError("again")))
    events.emit(fault(KeyError("another")))
    events.emit(fault(ValueError("another place"), "there"))
    await until(lambda: len(calls) == 3)
    monkeypatch.setattr("steady_queue.hooks.REPEAT_SECONDS", 0.0)
    events.emit(fault(ValueError("later")))
    await until(lambda: len(calls) == 4)


async def test_a_hook_that_hangs_delays_nothing_and_errors_do_not_accumulate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steady_queue.hooks.MAX_WAITING", 5)
    begun, go_on = threading.Event(), threading.Event()
    calls: list[str] = []

    @hooks.on_error
    def hangs(error: BaseException, origin: str) -> None:
        begun.set()
        go_on.wait()
        calls.append(origin)

    events.emit(fault(ValueError(), "first"))
    await until(begun.is_set)
    for number in range(100):
        events.emit(fault(ValueError(), f"place {number}"))
    go_on.set()
    await until(lambda: len(calls) == 6)
    hooks.reporter.flush(1)
    assert calls == ["first", *(f"place {number}" for number in range(5))]


async def test_hooks_may_be_async_and_one_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    @hooks.on_error
    def broken(error: BaseException, origin: str) -> None:
        raise SystemExit("on purpose")

    @hooks.on_error
    async def report(error: BaseException, origin: str) -> None:
        calls.append(origin)

    events.emit(fault(ValueError()))
    await until(lambda: calls == ["here"])
    assert "the on_error hook" in caplog.text
    hooks.remove(broken)
    hooks.remove(report)
    events.emit(fault(ValueError(), "there"))
    assert not hooks.reporter.is_busy
