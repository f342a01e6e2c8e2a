"""Progress and logs of running tasks: written in batches, complete when the task has ended, fenced by its claim."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import LogLine, Progress, SteadyQueueResult, enqueue_all
from steady_queue.aio import running
from steady_queue.aio.worker.reporting import reports
from steady_queue.jobs.running.reports import LINE_CHARACTERS, load_log
from tests.support.databases.aliases import application_in
from tests.support.databases.tables import query
from tests.support.runtime import EmittedEvents, in_thread, until, values, wait_for_results, worker
from tests.support.tasks import reporting, transactional
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task, TaskResult
    from tests.support.servers.proxy import Proxy

pytestmark = pytest.mark.anyio
everywhere = pytest.mark.usually_on("postgres", "mariadb", "sqlite")

both_lanes = pytest.mark.parametrize("task", [reporting.reports, reporting.reports_in_thread])
both_waiting = pytest.mark.parametrize("task", [reporting.reports_and_waits, reporting.reports_and_waits_in_thread])


async def current(result: TaskResult[Any]) -> SteadyQueueResult[Any]:
    await result.arefresh()
    assert isinstance(result, SteadyQueueResult)
    return result


def shown(progress: Progress | None) -> tuple[float, float | None, str] | None:
    return None if progress is None else (progress.done, progress.total, progress.message)


def messages(lines: list[LogLine]) -> list[str]:
    return [line.message for line in lines]


@everywhere
@both_lanes
async def test_when_a_task_has_ended_its_last_progress_and_its_whole_log_can_be_read(
    database: str, task: Task[..., Any]
) -> None:
    async with running(worker()):
        first, second = await task.aenqueue(5), await task.aenqueue(2)
        await wait_for_results(first, second)
        found = [await current(each) for each in (first, second)]
    assert [shown(each.progress) for each in found] == [(5, 5, "row 5"), (2, 2, "row 2")]
    assert messages(found[0].log) == [f"line {number}" for number in range(1, 6)]
    assert {line.attempt for line in found[0].log} == {1}
    progress = found[0].progress
    assert progress is not None
    assert progress.at is not None
    assert found[0].log[0].at <= progress.at


@everywhere
@both_waiting
async def test_the_progress_of_a_running_task_can_be_read(database: str, task: Task[..., Any]) -> None:
    async with running(worker()):
        result = await task.aenqueue()

        async def is_reported() -> bool:
            return (await current(result)).progress is not None

        await until(is_reported)
        found = await current(result)
        assert (shown(found.progress), found.is_finished) == ((1, 3, "one"), False)
        task_record.gate.set()
        await wait_for_results(result)
        assert shown((await current(result)).progress) == (3, 3, "")


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_task_that_holds_its_own_row_locked_delays_no_report_and_no_outcome(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "INTERVAL_SECONDS", 0.05)
    async with running(worker()):
        locked = await reporting.holds_its_row.aenqueue()
        await until(lambda: "holds_its_row" in task_record.began)
        began = time.monotonic()
        await wait_for_results(await reporting.reports.aenqueue(3))
        assert time.monotonic() - began < 3
        assert (await current(locked)).progress is None
        task_record.gate.set()
        await wait_for_results(locked)
        assert shown((await current(locked)).progress) == (1, 2, "")


@everywhere
async def test_the_reports_of_a_transactional_task_are_written_after_its_commit(database: str) -> None:
    with application_in(database):
        async with running(worker()):
            result = await reporting.reports_in_its_transaction.aenqueue()
            await wait_for_results(result)

            async def is_reported() -> bool:
                found = await current(result)
                return (shown(found.progress), messages(found.log)) == ((1, 1, ""), ["line"])

            await until(is_reported)


async def test_reports_of_a_claim_that_was_lost_are_dropped(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "INTERVAL_SECONDS", 0.01)
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        result = await reporting.reports_often.aenqueue(1)
        await until(lambda: task_record.runs[1] == 1)
        await in_thread(query, database, "UPDATE steady_queue_claimedexecution SET claim_id = job_id")
        await in_thread(query, database, "UPDATE steady_queue_job SET progress = NULL")
        await until(lambda: process.services.reports.are_pending)
        assert (await current(result)).progress is None
        await in_thread(query, database, "DELETE FROM steady_queue_claimedexecution")
        await in_thread(query, database, "UPDATE steady_queue_job SET finished_at = enqueued_at")
        task_record.gate.set()
        await until(lambda: not process.services.claims.known())
        await until(lambda: not process.services.reports.are_pending)
        assert (await current(result)).progress is None


async def test_reports_are_written_after_an_outage(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "INTERVAL_SECONDS", 0.01)
    async with running(worker()) as process:
        result = await reporting.reports_and_waits.aenqueue()
        await until(lambda: "reports_and_waits" in task_record.began)
        await in_thread(query, database, "ALTER TABLE steady_queue_job RENAME COLUMN progress TO progress_away")
        try:
            process.services.reports.put_progress(
                process.services.claims.running_jobs()[0].claim, Progress(2, 3, "during the outage")
            )
            await until(lambda: process.services.reports._is_failing)
        finally:
            await in_thread(query, database, "ALTER TABLE steady_queue_job RENAME COLUMN progress_away TO progress")

        async def is_reported() -> bool:
            return shown((await current(result)).progress) == (2, 3, "during the outage")

        await until(is_reported)
        task_record.gate.set()
        await wait_for_results(result)


async def test_the_last_reports_are_written_before_the_process_deregisters(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "INTERVAL_SECONDS", 60)
    async with running(worker()) as process:
        first = await reporting.reports_and_waits.aenqueue()
        await until(lambda: "reports_and_waits" in task_record.began)
        claim = process.services.claims.running_jobs()[0].claim

        async def is_reported() -> bool:
            return (await current(first)).progress is not None

        await until(is_reported)
        process.services.reports.put_progress(claim, Progress(2, 3, "the last"))
        process.quit()
    assert shown((await current(first)).progress) == (2, 3, "the last")


@everywhere
async def test_what_is_reported_after_the_end_of_a_task_is_dropped(database: str) -> None:
    async with running(worker()):
        (result,) = await wait_for_results(await transactional.keeps_context.aenqueue())
        await until(lambda: transactional.kept_contexts[0].control.has_ended)
        context = transactional.kept_contexts.pop()
        context.progress(1, 2)
        context.log("too late")
    ended = await current(result)
    assert (ended.progress, ended.log) == (None, [])


async def test_a_long_log_keeps_its_newest_lines(database: str) -> None:
    async with running(worker()):
        result = await reporting.logs_much.aenqueue(200, 1000)
        await wait_for_results(result)
        found = (await current(result)).log
    assert 50 < len(found) < 70
    assert found[-1].message.startswith("199 ")
    stored = await in_thread(query, database, "SELECT log FROM steady_queue_job")
    assert len(stored[0][0]) <= 65_536
    assert len(load_log(stored[0][0][10:])) == len(found) - 1


async def test_a_line_that_is_too_long_is_cut(database: str) -> None:
    async with running(worker()):
        result = await reporting.logs_much.aenqueue(1, 10_000)
        await wait_for_results(result)
        (line,) = (await current(result)).log
    assert len(line.message) == LINE_CHARACTERS
    assert line.message.endswith("x…")


@everywhere
@pytest.mark.parametrize("task", [reporting.tries_wrong_values, reporting.tries_wrong_values_in_thread])
async def test_wrong_values_are_errors_in_the_task_and_nothing_is_written(database: str, task: Task[..., Any]) -> None:
    async with running(worker()):
        result = await task.aenqueue()
        (errors,) = await values(result)
        found = await current(result)
    assert errors == [
        "metadata must be JSON: Object of type set is not JSON serializable",
        "the data of a checkpoint has 300,002 bytes as JSON; the limit is 262,144",
        "done must be a number from zero to 2**63, not -1",
        "done must be a number from zero to 2**63, not nan",
        "done must be an int or a float, not str",
        "done must be an int or a float, not bool",
        "total must be a number from zero to 2**63, not inf",
        "message must be a string, not int",
        "message has 2,000 characters; the limit is 1,000",
        "a line of the log must be a string, not int",
    ]
    assert (found.progress, found.log, found.metadata) == (None, [], {})


@pytest.mark.only_on("postgres")
async def test_many_tasks_that_report_often_cost_few_statements(
    database: str, proxied: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_thread(enqueue_all, [reporting.reports_often.bind(number) for number in range(300)])
    async with running(worker(coroutines=400), alias=proxied) as process:
        await until(lambda: task_record.running["async"] == 300)
        written: list[int] = []
        write = process.services.reports._write

        async def counting(chunk: Any) -> Any:
            written.append(len(chunk))
            return await write(chunk)

        monkeypatch.setattr(process.services.reports, "_write", counting)
        await until(lambda: len(written) >= 1)
        requests, began = proxy.requests, time.monotonic()
        await until(lambda: len(written) >= 4)
        rate = (proxy.requests - requests) / (time.monotonic() - began)
        task_record.gate.set()
    # Each of the 300 tasks has reported ten times a second. Polls, probes and maintenance are included.
    assert written[:4] == [300] * 4
    assert rate < 8


async def test_a_process_whose_tasks_report_nothing_writes_no_reports(database: str) -> None:
    async with running(worker()) as process:
        await wait_for_results(await reporting.changes_metadata.aenqueue("a", 1))
        assert not process.services.reports._wake.is_set()
        assert not process.services.reports._is_awake
