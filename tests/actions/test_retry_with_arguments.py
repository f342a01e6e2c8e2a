"""Retry a failed task with other arguments: checked and stored as at an enqueue, and the old ones are kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from steady_queue import Unique, actions
from steady_queue.errors import ArgumentError, DuplicateTask, JobIsRunning
from steady_queue.events import Event, JobsRetried, subscribe, unsubscribe
from steady_queue.jobs.compat import TaskResultDoesNotExist, task_backends
from steady_queue.jobs.results.old_arguments import OldArguments, load_old_arguments
from steady_queue.store.operations.actions import corrections
from steady_queue.store.outcome import Finished
from steady_queue.testing import run_pending
from tests.shop.tasks import add, charge, fail, send_mail
from tests.support.databases.tables import counts, query, row
from tests.support.store.jobs import fail_jobs, job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from tests.actions.conftest import Caller


def failed(alias: str, task: Any = add, text: str = '[1,["one"],{}]', **options: Any) -> str:
    """The id of a task that was enqueued with these arguments and has failed."""
    one = job(task_path=task.module_path, arguments=text, **options)
    fail_jobs(SyncStore(alias), one)
    return str(one.id)


def stored(id_: str, alias: str) -> dict[str, Any]:
    found = row(alias, "job", id_, "id")
    assert found is not None
    return found


def test_a_task_runs_with_the_new_arguments_and_keeps_the_old_ones(database: str, caller: Caller) -> None:
    id_ = failed(database)
    before = datetime.now(UTC)
    assert caller("retry", id_, arguments=add.bind(1, b=2)) is True
    (result,) = run_pending()
    assert (result.id, result.args, result.kwargs, result.return_value) == (id_, [1], {"b": 2}, 3)
    found: Any = task_backends["default"].get_result(id_)
    ((args, kwargs, replaced_at),) = found.old_arguments
    assert (args, kwargs) == (["one"], {})
    assert abs((replaced_at - before).total_seconds()) < 60
    assert len(found.errors) == 1


def test_the_new_arguments_are_checked_as_at_an_enqueue_and_nothing_changes(database: str, caller: Caller) -> None:
    id_ = failed(database)
    before = stored(id_, database)
    untyped: Any = add
    wrong: list[tuple[Any, type[Exception], str]] = [
        (untyped.bind(1, 2, 3), ArgumentError, "takes 2 positional arguments"),
        (untyped.bind(object()), ArgumentError, r"args\[0\]"),
        (send_mail.bind("ada"), ArgumentError, "cannot be retried with arguments of tests.shop.tasks.send_mail"),
        (((1,), {}), TypeError, r"arguments must be a call of the task, task\.bind\(\.\.\.\), not tuple"),
    ]
    for call, error, says in wrong:
        with pytest.raises(error, match=says):
            caller("retry", id_, arguments=call)
    assert stored(id_, database) == before
    assert counts(database) == {"failed": 1}


def test_only_a_failed_task_gets_new_arguments(database: str, caller: Caller) -> None:
    waiting = add.enqueue(1)
    assert caller("retry", waiting, arguments=add.bind(2)) is False
    assert stored(waiting.id, database)["arguments"] == "[1,[1],{}]"
    with pytest.raises(TaskResultDoesNotExist):
        caller("retry", "019a8a4e-5b7c-7d1e-9a55-3f2f6f7a9c10", arguments=add.bind(2))
    run_pending()
    store = SyncStore(database)
    one = job(task_path=add.module_path, arguments="[1,[1],{}]")
    (claim,) = store.claimed(one)
    with pytest.raises(JobIsRunning):
        caller("retry", str(one.id), arguments=add.bind(2))
    store.settle(Finished(claim))


def test_the_concurrency_key_follows_the_new_arguments(database: str, caller: Caller) -> None:
    id_ = failed(database, charge, '[1,["old"],{}]', concurrency_key="old", concurrency_limit=1, on_conflict=0)
    first = charge.enqueue(2)
    assert caller("retry", id_, arguments=charge.bind(2)) is True
    assert counts(database) == {"ready": 1, "blocked": 1}
    assert stored(id_, database)["concurrency_key"] == stored(first.id, database)["concurrency_key"]
    assert len(run_pending()) == 2


def test_the_unique_key_follows_the_new_arguments(database: str, caller: Caller) -> None:
    unique = fail.using(unique=Unique())
    id_ = unique.enqueue("old").id
    run_pending()
    query(database, "UPDATE steady_queue_job SET saved = '1'")
    before = stored(id_, database)
    other = unique.enqueue("taken")
    with pytest.raises(DuplicateTask) as refused:
        caller("retry", id_, arguments=unique.bind("taken"))
    assert refused.value.existing_ids == (other.id,)
    assert stored(id_, database) == before
    assert counts(database) == {"ready": 1, "failed": 1}

    assert caller("retry", id_, arguments=unique.bind("free")) is True
    with pytest.raises(DuplicateTask):
        unique.enqueue("free")
    unique.enqueue("old")
    run_pending()
    assert counts(database) == {"failed": 3}


def test_what_was_saved_for_the_old_arguments_is_deleted(database: str, caller: Caller) -> None:
    id_ = failed(database)
    query(database, "UPDATE steady_queue_job SET saved = '1'")
    caller("retry", id_, arguments=add.bind(1))
    assert stored(id_, database)["saved"] is None


def test_it_joins_the_transaction_of_its_caller(database: str) -> None:
    id_ = failed(database)
    with transaction.atomic(using=database):
        assert actions.retry(id_, arguments=add.bind(1)) is True
        transaction.set_rollback(True, using=database)
    assert counts(database) == {"failed": 1}
    found = stored(id_, database)
    assert (found["arguments"], found["old_arguments"]) == ('[1,["one"],{}]', None)


def test_the_old_arguments_are_limited_in_number_and_size(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    id_ = failed(database, fail)
    for number in range(12):
        assert actions.retry(id_, arguments=fail.bind(str(number)))
        run_pending()
    found: Any = task_backends["default"].get_result(id_)
    assert [old.args for old in found.old_arguments] == [[str(number)] for number in range(1, 11)]
    monkeypatch.setattr(corrections, "MAX_OLD_CHARACTERS", 200)
    assert actions.retry(id_, arguments=fail.bind("x"))
    text = stored(id_, database)["old_arguments"]
    assert len(text) <= 200
    assert "11" in text
    run_pending()


def test_old_arguments_that_cannot_be_restored_are_shown_as_text() -> None:
    moment = datetime(2026, 11, 18, tzinfo=UTC)
    line = json.dumps({"replaced_at": moment.isoformat(), "arguments": "nonsense"})
    assert load_old_arguments(line) == [OldArguments(["nonsense"], {}, moment)]
    assert load_old_arguments(None) == []


def test_an_event_reports_the_retry(database: str) -> None:
    id_ = failed(database)
    seen: list[Event] = []
    subscribe(seen.append)
    try:
        actions.retry(id_, arguments=add.bind(1))
    finally:
        unsubscribe(seen.append)
    (event,) = [event for event in seen if isinstance(event, JobsRetried)]
    assert [str(one) for one in event.job_ids] == [id_]
