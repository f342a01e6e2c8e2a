"""The framework's log lines: built only if a handler emits them, with the framework's own text."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings
from django.utils.log import AdminEmailHandler, RequireDebugFalse, RequireDebugTrue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steady_queue.aio import running
from steady_queue.jobs.compat import FRAMEWORK, TaskResultStatus, task_finished, task_started
from steady_queue.jobs.framework_log import would_emit
from tests.jobs.helpers import logger
from tests.shop.tasks import add, greet
from tests.support.fixtures import empty_task_record  # noqa: F401, each test has an empty task record
from tests.support.logs import RecordsHandler, as_installed, chain, restored
from tests.support.processes.scripts import run_script
from tests.support.runtime import until, values, wait_for_results, worker
from tests.support.tasks import misbehaving, recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task, TaskResult

pytestmark = [pytest.mark.contract, pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]


# -- as installed -----------------------------------------------------------------------------------------------------

#: Counts what is made while tasks run: nothing is replaced, each part is called as before.
COUNTING = """
import json, logging, threading
from collections import Counter
from django.conf import settings
from django.dispatch import Signal
from steady_queue import aenqueue_all
from steady_queue.aio import running
from steady_queue.jobs.compat import FRAMEWORK, task_enqueued, task_finished, task_started
from steady_queue.jobs.results.task_result import SteadyQueueResult
from steady_queue.events import JobsSettled
from tests.support.tasks.recording import returns_context, returns_context_in_thread
from tests.support.runtime import EmittedEvents, until, worker

made = Counter()
counter = threading.Lock()

def counting(what, function, counts=lambda *args: True):
    def call(*args, **kwargs):
        with counter:  # a task in a thread and one in the loop may count at the same moment
            made[what] += counts(*args)
        return function(*args, **kwargs)
    return call

of_tasks = (task_enqueued, task_started, task_finished)
SteadyQueueResult.__init__ = counting("results", SteadyQueueResult.__init__)
for name in ("send", "send_robust", "asend", "asend_robust"):
    setattr(Signal, name, counting("signals", getattr(Signal, name), lambda signal, *_: signal in of_tasks))
logging.setLogRecordFactory(counting("records", logging.getLogRecordFactory(), lambda name, *_: name == FRAMEWORK))

async def run(*calls):
    made.clear()
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        await aenqueue_all(calls)
        await until(lambda: sum(event.count for event in emitted.of(JobsSettled)) == len(calls))
    return dict(made)

async def main():
    calls = [*(add.bind(number) for number in range(5)), *(greet.bind("Ada") for _ in range(5))]
    takers = [returns_context.bind(1), returns_context_in_thread.bind(2)]
    asked = [await run(*calls), await run(*takers)]
    logging.getLogger(FRAMEWORK).addHandler(logging.NullHandler())
    asked.append(await run(*calls))
    logging.getLogger(FRAMEWORK).setLevel(logging.INFO)
    logging.getLogger(FRAMEWORK).addHandler(logging.FileHandler("/dev/null"))
    asked.append(await run(*calls))
    print(json.dumps(asked))

assert not settings.DEBUG and settings.LOGGING == {}
asyncio.run(main())
"""


def test_as_installed_no_task_makes_a_result_a_signal_or_a_log_record(database: str) -> None:
    plain, with_context, with_null_handler, logged = json.loads(run_script(COUNTING, alias=database))
    assert plain == {}
    assert with_context == {"results": 2}
    assert with_null_handler == {}
    # What counts does count: ten tasks, each with one result, and a line when it starts and when it ends.
    assert logged == {"results": 10, "signals": 20, "records": 20}


@pytest.mark.parametrize("put", [add, greet])
async def test_as_installed_receivers_of_the_user_get_what_they_always_got(database: str, put: Task[..., Any]) -> None:
    received: list[tuple[Any, TaskResultStatus]] = []

    def receive(sender: Any, task_result: TaskResult[Any], signal: Any, **kwargs: Any) -> None:
        received.append((signal, task_result.status))

    with as_installed(FRAMEWORK):
        for signal in (task_started, task_finished):
            signal.connect(receive)
        try:
            async with running(worker()):
                await wait_for_results(await put.aenqueue(1) if put is add else await put.aenqueue("Ada"))
        finally:
            for signal in (task_started, task_finished):
                signal.disconnect(receive)
    assert received == [(task_started, TaskResultStatus.RUNNING), (task_finished, TaskResultStatus.SUCCESSFUL)]


@pytest.mark.parametrize("task", [recording.returns_context, recording.returns_context_in_thread])
async def test_as_installed_a_task_gets_its_context(database: str, task: Task[..., Any]) -> None:
    with as_installed(FRAMEWORK):
        async with running(worker()):
            result = await task.aenqueue(5)
            assert await values(result) == [[result.id, 1, 5]]


# -- the lines --------------------------------------------------------------------------------------------------------


def words(task: Task[..., Any], result: TaskResult[Any], status: TaskResultStatus) -> str:
    return f"Task id={result.id} path={task.module_path} state={status}"


in_loop_and_thread = pytest.mark.parametrize(
    ("succeeds", "fails"),
    [
        (recording.returns_locale, misbehaving.misbehaves),
        (recording.returns_locale_in_thread, misbehaving.misbehaves_in_thread),
    ],
    ids=["async", "sync"],
)


@in_loop_and_thread
async def test_a_handler_gets_the_words_of_the_framework(
    database: str, pages: RecordsHandler, succeeds: Task[..., Any], fails: Task[..., Any]
) -> None:
    async with running(worker()):
        (well,) = await wait_for_results(await succeeds.aenqueue())
        (badly,) = await wait_for_results(await fails.aenqueue("NUL"))
    assert pages.lines == [
        (logging.INFO, words(succeeds, well, TaskResultStatus.RUNNING)),
        (logging.INFO, words(succeeds, well, TaskResultStatus.SUCCESSFUL)),
        (logging.INFO, words(fails, badly, TaskResultStatus.RUNNING)),
        (logging.ERROR, words(fails, badly, TaskResultStatus.FAILED)),
    ]
    assert [record.name for record in pages.records] == [FRAMEWORK] * 4
    assert [bool(record.exc_info) for record in pages.records] == [False, False, False, True]
    assert pages.records[-1].exc_info is not None
    assert type(pages.records[-1].exc_info[1]) is ValueError
    assert pages.text.getvalue().rstrip().endswith("ValueError: before\x00after")


async def test_a_configuration_that_changes_while_a_task_runs_is_noticed_by_its_end(database: str) -> None:
    with as_installed(FRAMEWORK):
        async with running(worker()):
            result = await recording.awaits.aenqueue("task")
            await until(lambda: task_record.began == ["task"])
            handlers = {"pages": {"()": RecordsHandler}}
            loggers = {FRAMEWORK: {"handlers": ["pages"], "level": "INFO"}}
            config = {"version": 1, "disable_existing_loggers": False, "handlers": handlers, "loggers": loggers}
            logging.config.dictConfig(config)
            (pages,) = logger.handlers
            assert isinstance(pages, RecordsHandler)
            task_record.gate.set()
            await wait_for_results(result)
            first = pages.lines
            logger.removeHandler(pages)
            await wait_for_results(await add.aenqueue(1))
    assert first == [(logging.INFO, words(recording.awaits, result, TaskResultStatus.SUCCESSFUL))]
    assert pages.lines == first


# -- which lines are emitted ------------------------------------------------------------------------------------------

LEVELS = st.sampled_from([logging.NOTSET, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, 100])

FILTERS = st.lists(st.sampled_from([RequireDebugTrue, RequireDebugFalse]), max_size=2)
HANDLERS = st.lists(st.tuples(st.sampled_from(["stream", "null"]), LEVELS, FILTERS), max_size=2)

LOGGERS = st.tuples(LEVELS, st.booleans(), HANDLERS)


@given(
    loggers=st.lists(LOGGERS, min_size=len(chain(FRAMEWORK)), max_size=len(chain(FRAMEWORK))),
    filters=FILTERS,
    is_disabled=st.integers(0, 9).map(lambda number: number == 0),
    below=st.sampled_from([logging.NOTSET, logging.NOTSET, logging.INFO, logging.ERROR]),
    last=st.one_of(st.none(), LEVELS),
    is_debugging=st.booleans(),
)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_would_be_emitted_is_what_logging_emits(
    loggers: list[tuple[int, bool, list[tuple[str, int, list[type[logging.Filter]]]]]],
    filters: list[type[logging.Filter]],
    is_disabled: bool,
    below: int,
    last: int | None,
    is_debugging: bool,
) -> None:
    out = io.StringIO()

    def handler(kind: str, level: int, its_filters: list[type[logging.Filter]]) -> logging.Handler:
        made: logging.Handler = logging.StreamHandler(out) if kind == "stream" else logging.NullHandler()
        made.setLevel(level)
        for one in its_filters:
            made.addFilter(one())
        return made

    with restored(FRAMEWORK), override_settings(DEBUG=is_debugging):
        for target, (level, propagates, handlers) in zip(chain(FRAMEWORK), loggers, strict=True):
            target.handlers[:] = [handler(*one) for one in handlers]
            target.propagate = propagates
            target.setLevel(level)
        logger.filters[:] = [one() for one in filters]
        logger.disabled = is_disabled
        logging.disable(below)
        last_resort = None if last is None else logging.StreamHandler(out)
        if last_resort is not None and last is not None:
            last_resort.setLevel(last)
        logging.lastResort = last_resort
        for level in (logging.DEBUG, logging.INFO, logging.ERROR):
            expected = would_emit(level)
            out.seek(0)
            out.truncate()
            logger.log(level, "a line")
            assert expected is bool(out.getvalue())


class Unknown(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return False


def test_an_unknown_filter_counts_as_one_that_passes_every_record() -> None:
    with as_installed(FRAMEWORK):
        logger.setLevel(logging.INFO)
        logger.handlers[:] = [logging.StreamHandler(io.StringIO())]
        logger.handlers[0].addFilter(RequireDebugTrue())
        logger.propagate = False
        assert not would_emit(logging.INFO)
        logger.handlers[0].filters.insert(0, Unknown())
        assert would_emit(logging.INFO)
        logger.handlers[0].filters.pop(0)
        assert not would_emit(logging.INFO)
        logger.addFilter(Unknown())
        assert would_emit(logging.INFO)
        assert not would_emit(logging.INFO, surely=True)


def test_a_handler_whose_methods_were_replaced_may_emit() -> None:
    with as_installed(FRAMEWORK):
        logger.handlers[:] = [handler := logging.StreamHandler(io.StringIO())]
        logger.propagate = False
        handler.addFilter(RequireDebugTrue())
        assert not would_emit(logging.ERROR)
        vars(handler)["filter"] = lambda record: True
        assert would_emit(logging.ERROR)
        assert not would_emit(logging.ERROR, surely=True)


def test_a_handler_of_admins_emits_if_there_are_any() -> None:
    with as_installed(FRAMEWORK):
        logger.handlers[:] = [AdminEmailHandler()]
        logger.propagate = False
        assert not would_emit(logging.ERROR)
        with override_settings(ADMINS=["ada@example.com"]):
            assert would_emit(logging.ERROR)
            assert not would_emit(logging.ERROR, surely=True)


def test_a_tool_that_takes_records_from_loggers_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before = logging.Logger.callHandlers
    taken: list[logging.LogRecord] = []

    def take(self: logging.Logger, record: logging.LogRecord) -> None:
        taken.append(record)
        before(self, record)

    with as_installed(FRAMEWORK):
        logger.setLevel(logging.INFO)
        logger.handlers[:] = [logging.NullHandler()]
        logger.propagate = False
        assert not would_emit(logging.INFO)
        monkeypatch.setattr(logging.Logger, "callHandlers", take)
        assert would_emit(logging.INFO)
        monkeypatch.undo()
        assert not would_emit(logging.INFO)
