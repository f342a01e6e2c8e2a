"""`steady_queue run <id>`: a stored task runs in the foreground, and the queue stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone, translation

from tests.shop.models import Customer
from tests.shop.replayed import (
    adds_customer,
    adds_customer_async,
    completes_itself,
    greets,
    reports,
    returns_what_cannot_be_stored,
    snoozes,
    where_am_i,
    with_attempt,
)
from tests.shop.tasks import add, fail, greet
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import MANAGE
from tests.support.processes.scripts import REPOSITORY
from tests.support.store.jobs import job, report
from tests.support.store.stores import SyncStore
from tests.support.tasks.replayed import adds_customer_transactionally, commits, commits_transactionally

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult

OURS = "steady_queue.backend.SteadyQueueBackend"

pytestmark = pytest.mark.usually_on("postgres", "sqlite")


def replay(result: TaskResult[Any] | str, *options: str) -> tuple[int, str, str]:
    """The exit status, what went to stdout, and what to stderr."""
    out, err = StringIO(), StringIO()
    try:
        call_command("steady_queue", "run", *options, str(getattr(result, "id", result)), stdout=out, stderr=err)
    except SystemExit as exit_:
        return int(str(exit_.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def everything(alias: str) -> list[Any]:
    """All that the queue stores about jobs."""
    jobs = query(alias, "SELECT id, attempts, finished_at, errors, return_value, arguments FROM steady_queue_job")
    return [counts(alias), sorted(jobs, key=str)]


def test_a_waiting_task_runs_and_stays_as_it_is(database: str) -> None:
    results: list[TaskResult[Any]] = [add.enqueue(1, b=2), greet.enqueue("Ada", times=2)]
    before = everything(database)
    status, out, err = replay(results[0])
    assert (status, out) == (0, "3\n")
    assert err == f"tests.shop.tasks.add {results[0].id} (ready), called with (1, b=2)\n"
    assert replay(results[1])[:2] == (0, "'Hello, Ada! Hello, Ada!'\n")
    assert everything(database) == before
    assert counts(database) == {"ready": 2}


def test_ended_tasks_run_again_and_stay_as_they_are(database: str) -> None:
    from steady_queue.testing import run_pending

    finished, failed = add.enqueue(1), fail.enqueue("broken")
    run_pending()
    before = everything(database)
    assert replay(finished)[:2] == (0, "1\n")
    status, out, err = replay(failed)
    assert (status, out) == (1, "")
    assert "ValueError: broken" in err
    assert everything(database) == before


def test_a_task_gets_its_context_language_and_time_zone(database: str) -> None:
    with translation.override("de"), timezone.override("Europe/Berlin"):
        result = where_am_i.enqueue()
    assert replay(result)[:2] == (0, "['de', 'Europe/Berlin']\n")
    assert (translation.get_language(), timezone.get_current_timezone_name()) == ("en-us", "UTC")
    other = with_attempt.enqueue(7)
    assert replay(other)[:2] == (0, f"[1, '{other.id}', 7]\n")


@pytest.mark.parametrize("task", [adds_customer, adds_customer_async], ids=["sync", "async"])
def test_a_rolled_back_task_leaves_nothing(database: str, task: Any) -> None:
    result = task.enqueue("Ada")
    status, out, err = replay(result, "--rollback")
    assert (status, out) == (0, "'Ada'\n")
    assert "rolled back: " in err.splitlines()[-1]
    assert (count(database, "job"), Customer.objects.using(database).count()) == (1, 0)
    assert replay(result)[0] == 0
    assert (count(database, "job"), Customer.objects.using(database).count()) == (2, 1)


@pytest.mark.parametrize("task", [adds_customer_transactionally, completes_itself], ids=["transactional", "block"])
def test_a_task_with_a_transaction_of_its_own_is_committed_but_not_settled(database: str, task: Any) -> None:
    tasks = {"default": {"BACKEND": OURS, "OPTIONS": {"commit_with": database}}}
    with override_settings(TASKS=tasks):
        result = task.enqueue("Ada")
        before = everything(database)
        assert replay(result, "--rollback")[0] == 0
        assert Customer.objects.using(database).count() == 0
        assert replay(result)[0] == 0
    assert Customer.objects.using(database).count() == 1
    assert everything(database) == before


def test_a_statement_that_would_end_the_rollback_is_refused(database: str) -> None:
    status, _, err = replay(commits.enqueue("Ada", "statement"), "--rollback")
    assert status == 1
    assert f"{database}: 'COMMIT' was refused: it would end the transaction of --rollback" in err
    assert Customer.objects.using(database).count() == 0


def test_a_rollback_that_was_impossible_is_reported(database: str) -> None:
    status, _, err = replay(commits.enqueue("Ada", "driver"), "--rollback")
    assert status == 1
    assert f"{database}: the transaction of the task has ended before the task" in err
    *_, rolled_back, not_rolled_back = err.splitlines()
    assert database not in rolled_back.removeprefix("rolled back: ").split(", ")
    assert not_rolled_back == f"not rolled back, or not all of it: {database}"
    assert Customer.objects.using(database).count() == 1


@pytest.mark.parametrize("how", ["statement", "driver"])
def test_a_transactional_task_that_commits_fails_as_in_a_worker(database: str, how: str) -> None:
    tasks = {"default": {"BACKEND": OURS, "OPTIONS": {"commit_with": database}}}
    with override_settings(TASKS=tasks):
        status, _, err = replay(commits_transactionally.enqueue("Ada", how))
    assert status == 1
    assert "TransactionEndedByTask: " in err
    assert Customer.objects.using(database).count() == (how == "driver")


def test_models_and_enums_are_restored(database: str) -> None:
    customer = Customer.objects.using(database).create(name="Ada")
    result = greets.enqueue(customer, Customer.Tier.GOLD)
    assert replay(result)[:2] == (0, "'Ada gold'\n")
    customer.delete()
    with pytest.raises(CommandError, match=r"cannot be run: shop\.Customer .* is no longer in the database"):
        replay(result)


def test_what_a_task_reports_is_shown_and_not_stored(database: str) -> None:
    result = reports.enqueue()
    before = stored_reports(database)
    status, out, err = replay(result)
    assert (status, out) == (0, "[{'at': 1}, False, False]\n")
    assert err.splitlines()[1:] == ["progress: 1 of 4 begins", "log: first line"]
    assert stored_reports(database) == before


def stored_reports(alias: str) -> list[tuple[Any, ...]]:
    return query(alias, "SELECT progress, log, saved, metadata FROM steady_queue_job")


def test_what_a_task_requests_or_returns_wrongly_is_shown(database: str) -> None:
    status, _, err = replay(snoozes.enqueue())
    assert status == 1
    assert "a worker would carry out the request Snooze" in err
    status, _, err = replay(returns_what_cannot_be_stored.enqueue())
    assert status == 1
    assert "object" in err


def test_a_task_that_runs_now_is_refused_unless_forced(database: str) -> None:
    store = SyncStore(database)
    one = job(task_path=add.module_path, arguments="[1,[5],{}]")
    (claim,) = store.claimed(one)
    with pytest.raises(CommandError, match=r"runs now, in worker; .* add --force"):
        replay(str(one.id))
    assert replay(str(one.id), "--force")[:2] == (0, "5\n")
    store.settle(store_failure(claim))


def store_failure(claim: Any) -> Any:
    from steady_queue.store.outcome import Failed

    return Failed(claim, report())


def test_ids_that_cannot_be_run_are_explained(database: str) -> None:
    for id_, text in [("nonsense", "it is not a UUID"), (str(uuid4()), "no task has the id")]:
        with pytest.raises(CommandError, match=text):
            replay(id_)
    one = job(task_path="tests.shop.tasks.gone", arguments="[1,[],{}]")
    SyncStore(database).enqueue(one)
    with pytest.raises(CommandError, match=r"tests\.shop\.tasks\.gone .* cannot be run: .* is not a task"):
        replay(str(one.id))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "a", "b"], "run takes one id"),
        (["check", "a"], "check takes no ids"),
        (["run", "--rollback"], "--rollback is an option of 'run ID'"),
        (["check", "--pdb"], "--pdb is an option of 'run ID'"),
        (["check", "--json"], "--json is an option of 'check --stored'"),
        (["--stored"], "--stored is an option of 'check'"),
        (["run", "--stored"], "--stored is an option of 'check'"),
        (["--failed"], "--failed is an option of 'check --stored'"),
        (["--json"], "--json is an option of 'check --stored' or 'cancel'"),
        (["--max-age", "0"], "--max-age is an option of 'health'"),
        (["--queue", "mail"], "--queue is an option of 'cancel'"),
        (["cancel", "--queues", "mail", "--status", "ready"], "--queues is an option of 'run' or 'check'"),
        (["run", "a", "--async"], "--async is an option of 'run' or 'check'"),
        (["run", "a", "--no-async"], "--async is an option of 'run' or 'check'"),
        (["health", "--threads", "2"], "--threads is an option of 'run' or 'check'"),
        (["check", "--reload"], "--reload is an option of 'run'"),
        (["check", "--stored", "--drain"], "--drain is an option of 'run' or 'check'"),
    ],
)
def test_words_that_do_not_belong_together_are_refused(words: list[str], text: str) -> None:
    with pytest.raises(CommandError, match=text):
        call_command("steady_queue", *words, stdout=StringIO(), stderr=StringIO())


@pytest.mark.usually_on("sqlite")
def test_the_debugger_starts_where_the_task_raised(database: str) -> None:
    result = fail.enqueue("broken")
    text = MANAGE.format(alias=database, alive=20, shutdown_timeout_seconds=1, setup="")
    done = subprocess.run(
        [sys.executable, "-c", text, "run", "--pdb", result.id],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        input="p message * 2\nq\n",
        capture_output=True,
        text=True,
        timeout=25,
    )
    assert done.returncode == 1
    assert "'brokenbroken'" in done.stdout
    assert "ValueError: broken" in done.stderr
