"""Transactional tasks: what a task writes and its outcome are committed together, or neither is."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

import steady_queue
from steady_queue.aio import running
from steady_queue.errors import CompletionError, TransactionEndedByTask, TransactionLeftOpen
from steady_queue.events import (
    ClaimsLost,
    JobContinuedAfterCompletion,
    JobFailed,
    JobFenced,
    JobReleased,
    JobsPromoted,
    JobsSettled,
)
from steady_queue.jobs.compat import task_finished
from steady_queue.store.operations.processes.prune import release_claims
from tests.shop.models import Customer
from tests.shop.tasks import greet
from tests.support.databases.aliases import application_in
from tests.support.databases.tables import count
from tests.support.runtime import EmittedEvents, error_of, in_thread, until, values, wait_for_results, worker
from tests.support.store.stores import SyncStore
from tests.support.tasks import transactional
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.jobs.compat import Task, TaskResult

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

SERVERS = pytest.mark.only_on("postgres", "mariadb")
ENDED = f"{TransactionEndedByTask.__module__}.{TransactionEndedByTask.__qualname__}"


@pytest.fixture(autouse=True)
def application_in_queue_database(database: str) -> Iterator[None]:
    with application_in(database):
        yield


async def customers(alias: str) -> list[str]:
    """The names of the customers in the database, in order."""
    return await in_thread(lambda: list(Customer.objects.using(alias).order_by("pk").values_list("name", flat=True)))


def release_claims_of_others(alias: str) -> None:
    """Release all claims, as another process does that believes their process to be dead."""
    store = SyncStore(alias)
    claims = store.ask("SELECT claim_id, job_id FROM steady_queue_claimedexecution", returns="uu")
    store.run(release_claims(store.sql, {row[0]: row[1] for row in claims}, "other"))


# -- the task ---------------------------------------------------------------------------------------------------------


async def test_a_transactional_task_is_committed_with_what_it_wrote(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        result = await transactional.writes.aenqueue("Ada")
        assert await values(result) == ["Ada"]
        await until(lambda: sum(event.count for event in emitted.of(JobsSettled)) == 1)
        assert result.worker_ids == [process.name]
    assert await customers(database) == ["Ada"]


async def test_a_transactional_task_is_in_an_atomic_block(database: str) -> None:
    async with running(worker()):
        assert await values(await transactional.describes_connection.aenqueue()) == [[True, True, False]]
    assert await customers(database) == ["inside"]


async def test_a_transactional_task_without_a_statement_is_settled_with_others(database: str) -> None:
    async with running(worker()):
        assert await values(await transactional.does_nothing.aenqueue()) == ["nothing"]


async def test_an_error_rolls_back_what_a_transactional_task_wrote(database: str) -> None:
    async with running(worker()):
        (result,) = await wait_for_results(await transactional.writes_and_raises.aenqueue("Ada"))
    assert error_of(result) == "builtins.ValueError"
    assert await customers(database) == []


async def test_a_transactional_task_that_is_retried_writes_once(database: str) -> None:
    async with running(worker()):
        assert await values(await transactional.writes_in_the_second_attempt.aenqueue("Ada")) == ["Ada"]
    assert await customers(database) == ["Ada"]
    assert task_record.runs["Ada"] == 2


@pytest.mark.parametrize(
    "task",
    [
        transactional.waits_and_writes,
        # On SQLite these would keep others from writing while they wait.
        pytest.param(transactional.writes_and_waits, marks=SERVERS),
        pytest.param(transactional.waits_in_completion, marks=SERVERS),
    ],
)
async def test_a_task_that_lost_its_claim_writes_nothing(database: str, task: Task[..., Any]) -> None:
    emitted = EmittedEvents()
    finished: list[TaskResult[Any]] = []
    task_finished.connect(receiver := lambda task_result, **_: finished.append(task_result))
    async with running(worker(threads=2), events=emitted):
        result = await task.aenqueue("Ada")
        await until(lambda: task_record.began == ["Ada"])
        await in_thread(release_claims_of_others, database)
        await until(lambda: task_record.began == ["Ada", "Ada"])
        task_record.gate.set()
        assert await values(result) == ["Ada"]
        await until(lambda: bool(emitted.of(JobFenced)))
    task_finished.disconnect(receiver)
    assert await customers(database) == ["Ada"]
    assert len(emitted.of(JobFenced)) == 1
    assert not emitted.of(JobFailed)
    assert [one.status for one in finished] == ["SUCCESSFUL"]
    assert result.attempts == 1


@SERVERS
async def test_a_task_that_lost_its_claim_writes_nothing_at_stricter_isolation_levels(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    level: Any = "repeatable read"
    if database == "postgres":
        from psycopg import IsolationLevel

        level = IsolationLevel.SERIALIZABLE
    monkeypatch.setitem(connections.databases[database]["OPTIONS"], "isolation_level", level)
    emitted = EmittedEvents()
    async with running(worker(threads=2), events=emitted):
        result = await transactional.writes_and_waits.aenqueue("Ada")
        await until(lambda: task_record.began == ["Ada"])
        await in_thread(release_claims_of_others, database)
        await until(lambda: task_record.began == ["Ada", "Ada"])
        task_record.gate.set()
        assert await values(result) == ["Ada"]
        await until(lambda: bool(emitted.of(JobFenced)))
    assert await customers(database) == ["Ada"]
    assert not emitted.of(JobFailed)


async def test_limited_transactional_tasks_pass_their_slot_on(database: str) -> None:
    emitted = EmittedEvents()
    results = [await transactional.writes_alone.aenqueue(str(number)) for number in range(5)]
    async with running(worker(), events=emitted):
        assert await values(*results) == ["0", "1", "2", "3", "4"]
        await until(lambda: sum(event.count for event in emitted.of(JobsSettled)) == 5)
    assert sorted(await customers(database)) == ["0", "1", "2", "3", "4"]
    assert sum(event.count for event in emitted.of(JobsPromoted)) >= 1
    assert task_record.peak["limited"] == 1


async def test_the_row_of_a_finished_transactional_task_is_not_kept_if_the_project_wants_that(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "preserve_finished_jobs", False)
    async with running(worker()):
        await transactional.writes.aenqueue("Ada")
        await until(lambda: in_thread(has_no_job, database))
    assert await customers(database) == ["Ada"]


def has_no_job(alias: str) -> bool:
    return count(alias, "job") == 0


@pytest.mark.parametrize("how", ["with a statement", "without a statement", "raises"])
async def test_callbacks_run_after_the_commit_and_their_errors_change_nothing(database: str, how: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        assert await values(await transactional.calls_back.aenqueue("Ada", how)) == ["Ada"]
        await until(lambda: task_record.began == [how])
        await until(lambda: bool(emitted.of(JobsSettled)))
    ignored = [event.ignored for event in emitted.of(JobContinuedAfterCompletion)]
    assert ignored == (["ValueError: after the commit"] if how == "raises" else [])


# -- transactions that the task ends ----------------------------------------------------------------------------------

WAYS = {
    "closes": ENDED,
    "set_rollback": ENDED,
    "set_autocommit": "django.db.transaction.TransactionManagementError",
    "commit": "django.db.transaction.TransactionManagementError",
    "durable": "builtins.RuntimeError",
    "leaves a block open": f"{TransactionLeftOpen.__module__}.{TransactionLeftOpen.__qualname__}",
    "COMMIT": ENDED,
    "/* a comment */ commit": ENDED,
    "-- a comment\n  commit;": ENDED,
    "ROLLBACK": ENDED,
    "BEGIN": ENDED,
    "END": ENDED,
}
IMPLICIT = {"SET autocommit = 1": ENDED, "CREATE TABLE never_made (id int)": ENDED, "START TRANSACTION": ENDED}


async def test_a_task_that_ends_its_transaction_has_failed_and_nothing_is_half_done(database: str) -> None:
    ways = {
        **WAYS,
        **({"catches an error": ENDED, "SELECT 1; COMMIT": ENDED} if database == "postgres" else {}),
        **(IMPLICIT if database == "mariadb" else {}),
    }
    async with running(worker()):
        results = [await transactional.ends_transaction.aenqueue(how) for how in ways]
        await wait_for_results(*results)
        assert {how: error_of(result) for how, result in zip(ways, results, strict=True)} == ways
        assert await customers(database) == []
        assert await values(await transactional.writes.aenqueue("Ada"), await greet.aenqueue("Ada")) == [
            "Ada",
            "Hello, Ada!",
        ]
    assert await customers(database) == ["Ada"]


@pytest.mark.parametrize("how", ["commit", "rollback"])
async def test_a_transaction_that_was_ended_on_the_drivers_connection_is_noticed(database: str, how: str) -> None:
    async with running(worker()):
        (result,) = await wait_for_results(await transactional.ends_transaction_of_driver.aenqueue(how))
        assert error_of(result) == ENDED
    assert "afterwards" not in await customers(database)


async def test_a_task_that_has_ended_its_transaction_is_not_retried(database: str) -> None:
    ways = ["commits", "commits and begins again", "commits and raises", "commits, begins again and raises"]
    async with running(worker()):
        results = [await transactional.ends_transaction_unseen.aenqueue(how) for how in ways]
        await wait_for_results(*results)
        assert {how: error_of(result) for how, result in zip(ways, results, strict=True)} == dict.fromkeys(ways, ENDED)
    assert task_record.runs == dict.fromkeys(ways, 1)
    assert sorted(await customers(database)) == sorted(ways)


async def test_a_transaction_left_open_on_another_database_is_an_error(database: str) -> None:
    async with running(worker()):
        (result,) = await wait_for_results(await transactional.writes_elsewhere.aenqueue("Ada"))
    assert error_of(result) == f"{TransactionLeftOpen.__module__}.{TransactionLeftOpen.__qualname__}"
    assert await customers(database) == []


async def test_a_transactional_task_is_refused_if_the_application_has_another_database(database: str) -> None:
    with application_in("default"):
        async with running(worker()):
            (result,) = await wait_for_results(await transactional.writes.aenqueue("Ada"))
    assert error_of(result) == "steady_queue.errors.ConfigurationError"
    assert await customers(database) == []


# -- the block form ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "value", "ignored"),
    [
        ("", "result of Ada", []),
        ("sets the result", "set", []),
        ("returns the same", "result of Ada", []),
        ("returns", "result of Ada", ["it returned a value"]),
        ("raises", "result of Ada", ["ValueError: too late"]),
        (
            "twice",
            "result of Ada",
            ["CompletionError: a task can be completed once only, and by the attempt that runs"],
        ),
    ],
)
async def test_a_block_completes_a_task_and_what_follows_has_no_effect(
    database: str, then: str, value: str, ignored: list[str]
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        result = await transactional.completes.aenqueue("Ada", then)
        assert await values(result) == [value]
        await process.services.reconciliation.reconcile()
        task_record.gate.set()
        await until(lambda: bool(emitted.of(JobsSettled)))
    assert [event.ignored for event in emitted.of(JobContinuedAfterCompletion)] == ignored
    assert not emitted.of(JobFailed)
    assert not emitted.of(ClaimsLost)
    assert await customers(database) == ["Ada"]


async def test_a_block_that_raises_completes_nothing_and_may_be_tried_again(database: str) -> None:
    async with running(worker()):
        assert await values(await transactional.completes_after_error.aenqueue("Ada")) == ["second"]
    assert await customers(database) == ["Ada"]


@pytest.mark.parametrize(
    ("task", "error"),
    [(transactional.completes_in_block, TransactionEndedByTask), (transactional.nests_completions, CompletionError)],
)
async def test_a_block_must_be_the_outermost(database: str, task: Task[..., Any], error: type[Exception]) -> None:
    async with running(worker()):
        (result,) = await wait_for_results(await task.aenqueue())
    assert error_of(result) == f"{error.__module__}.{error.__qualname__}"
    assert await customers(database) == []


async def test_a_context_that_outlives_its_task_completes_nothing(database: str) -> None:
    async with running(worker()):
        await wait_for_results(await transactional.keeps_context.aenqueue())
        await until(lambda: transactional.kept_contexts[0].control.has_ended)
    context = transactional.kept_contexts.pop()
    with pytest.raises(CompletionError), context.completing():
        raise AssertionError("never reached")


# -- async tasks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["", "raises"])
async def test_an_async_task_is_completed_on_its_orm_thread(database: str, then: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        result = await transactional.completes_async.aenqueue("Ada", then)
        assert await values(result) == ["result of Ada"]
        await until(lambda: task_record.began == ["result of Ada"])
        await process.services.reconciliation.reconcile()
        task_record.gate.set()
        await until(lambda: bool(emitted.of(JobsSettled)))
    assert [event.ignored for event in emitted.of(JobContinuedAfterCompletion)] == (
        ["ValueError: too late"] if then else []
    )
    assert not emitted.of(ClaimsLost)
    assert await customers(database) == ["before Ada", "Ada"]


async def test_an_async_task_that_was_completed_is_not_released_by_a_shutdown(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(0))
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        result = await transactional.completes_async.aenqueue("Ada")
        await until(lambda: task_record.began == ["result of Ada"])
    assert await values(result) == ["result of Ada"]
    assert not emitted.of(JobReleased)
    assert sum(event.count for event in emitted.of(JobsSettled)) == 1
