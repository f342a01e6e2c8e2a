"""Failures in the framework's log: each is logged once, and oversized exceptions are cut."""

from __future__ import annotations

import logging
import logging.config
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest
from django.dispatch import Signal

from steady_queue.aio import running
from steady_queue.events import Events, JobFailed, JobFailedUnlogged, log
from steady_queue.events.tracebacks import TRACEBACK_LENGTH
from steady_queue.jobs.compat import FRAMEWORK, signals, task_finished
from steady_queue.management.log_output import JsonLines
from steady_queue.testing import arun_pending
from tests.jobs.helpers import logger
from tests.shop.tasks import add, fail, greet
from tests.support.fixtures import empty_task_record  # noqa: F401, each test has an empty task record
from tests.support.logs import RecordsHandler, as_installed
from tests.support.processes.scripts import run_script
from tests.support.runtime import EmittedEvents, until, values, wait_for_results, worker
from tests.support.tasks import misbehaving

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task

pytestmark = [pytest.mark.contract, pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["no handler emits it", "the framework's receiver is disconnected"])
async def test_a_failure_that_the_framework_does_not_log_is_logged_by_us(database: str, how: str) -> None:
    emitted = EmittedEvents()
    with as_installed(FRAMEWORK):
        if how == "no handler emits it":
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
        else:
            task_finished.disconnect(signals.log_task_finished)
        try:
            async with running(worker(), events=emitted):
                await wait_for_results(await fail.aenqueue("boom"), await misbehaving.misbehaves.aenqueue("NUL"))
                await until(lambda: len(emitted.of(JobFailed)) == 2)
        finally:
            task_finished.connect(signals.log_task_finished)
    reported = {event.task_path: event for event in emitted.of(JobFailedUnlogged)}
    assert set(reported) == {fail.module_path, misbehaving.misbehaves.module_path}
    event = reported[fail.module_path]
    assert event.level == logging.ERROR
    line = event.message()
    assert line.startswith(f"{fail.module_path} {event.job_id} failed: builtins.ValueError: boom\nTraceback")
    assert line.endswith("ValueError: boom\n")


async def test_a_failure_that_the_framework_logs_is_not_logged_again(database: str, pages: RecordsHandler) -> None:
    emitted = EmittedEvents()
    logger.setLevel(logging.ERROR)
    async with running(worker(), events=emitted):
        await wait_for_results(await fail.aenqueue("boom"), await misbehaving.misbehaves.aenqueue("NUL"))
        await until(lambda: len(emitted.of(JobFailed)) == 2)
    assert {event.level for event in emitted.of(JobFailed)} == {logging.DEBUG}
    assert [level for level, _ in pages.lines] == [logging.ERROR] * 2


async def test_a_failure_is_logged_once_where_a_tool_wraps_receivers(
    database: str, pages: RecordsHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Signal._live_receivers

    def wrapped(self: Signal, sender: Any) -> Any:
        sync_receivers, async_receivers = live(self, sender)
        return [wraps(one)(lambda *args, one=one, **kwargs: one(*args, **kwargs)) for one in sync_receivers], (
            async_receivers
        )

    monkeypatch.setattr(Signal, "_live_receivers", wrapped)
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        await wait_for_results(await fail.aenqueue("boom"))
        await until(lambda: len(emitted.of(JobFailed)) == 1)
    assert not emitted.of(JobFailedUnlogged)
    assert [level for level, _ in pages.lines].count(logging.ERROR) == 1


async def test_a_log_handler_that_raises_changes_no_outcome(database: str) -> None:
    class Raises(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("the log is full")

    with as_installed(FRAMEWORK):
        logger.setLevel(logging.INFO)
        # Django's dispatcher logs the error of the first line, and so meets the second.
        for name in (FRAMEWORK, "django.dispatch"):
            logging.getLogger(name).addHandler(Raises())
        async with running(worker()):
            assert await values(await add.aenqueue(1, 2), await greet.aenqueue("Ada")) == [3, "Hello, Ada!"]
        logging.getLogger("django.dispatch").handlers.clear()


def test_as_installed_a_failure_is_seen(database: str) -> None:
    seen = run_script(
        """
import contextlib, sys
from steady_queue.aio import running
from tests.shop.tasks import fail
from tests.support.runtime import wait_for_results, worker

async def main():
    async with running(worker()):
        await wait_for_results(await fail.aenqueue("boom"))

with contextlib.redirect_stderr(sys.stdout):
    asyncio.run(main())
""",
        alias=database,
    )
    assert seen.count("Traceback (most recent call last):") == 1
    assert "ValueError: boom" in seen


# -- oversized exceptions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [misbehaving.misbehaves, misbehaving.misbehaves_in_thread])
async def test_an_oversized_exception_is_logged_with_its_name_its_traceback_and_a_part_of_its_text(
    database: str, pages: RecordsHandler, task: Task[..., Any]
) -> None:
    async with running(worker()):
        await wait_for_results(await task.aenqueue("huge"))
        await wait_for_results(await task.aenqueue("NUL"))
    huge, usual = (record.exc_info for record in pages.records if record.exc_info)
    assert huge is not None
    assert usual is not None
    text = pages.text.getvalue()
    assert len(text) < TRACEBACK_LENGTH
    assert "in _misbehave" in text
    assert "\nValueError: xxx" in text
    assert "49998000 characters left out" in text
    assert type(usual[1]) is ValueError


@pytest.mark.usefixtures("database")
async def test_what_a_test_raises_of_an_oversized_exception_is_the_exception(pages: RecordsHandler) -> None:
    await misbehaving.misbehaves.aenqueue("huge")
    with pytest.raises(ValueError) as raised:
        await arun_pending(raising=True)
    assert len(str(raised.value)) == 50_000_000
    assert len(pages.text.getvalue()) < TRACEBACK_LENGTH


def test_an_oversized_exception_of_a_subscriber_is_cut_in_every_format() -> None:
    def subscriber(event: JobFailed) -> None:
        raise ValueError("x" * 1_000_000) from KeyError("y" * 1_000_000)

    ours = logging.getLogger("steady_queue")
    for formatter in (logging.Formatter(), JsonLines()):
        pages = RecordsHandler()
        pages.setFormatter(formatter)
        with as_installed("steady_queue"):
            ours.addHandler(pages)
            Events([subscriber]).emit(JobFailed(job_id=None, task_path="a.task", error="boom"))  # type: ignore[arg-type]
            log(JobFailedUnlogged(job_id=None, task_path="a.task", error="z" * 1_000_000, traceback=""))  # type: ignore[arg-type]
        assert len(pages.records) == 2
        # Two lines; JSON has the fields again.
        assert len(pages.text.getvalue()) < 5 * TRACEBACK_LENGTH
        assert "characters left out" in pages.text.getvalue()
