"""What a running task stores: metadata, checkpoints and reports, each fenced by its claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from steady_queue.store.operations.task_data import LOG_CHARACTERS, Report, save_task_data, write_reports
from steady_queue.store.outcome import Finished, Released
from tests.support.databases.open_transactions import OpenTransaction
from tests.support.store.jobs import failed, job
from tests.support.store.rows import all_rows, job_row

if TYPE_CHECKING:
    from steady_queue.store.job import Claim
    from tests.support.store.stores import Store

Column = Literal["metadata", "saved"]


def report(claim: Claim, progress: str | None = None, log: str | None = None) -> Report:
    return Report(claim.job_id, claim.claim_id, progress, log)


@pytest.mark.parametrize("column", ["metadata", "saved"])
def test_a_task_writes_its_own_job_and_no_other(store: Store, column: Column) -> None:
    first, second = job(), job()
    claim, _ = store.claimed(first, second)
    assert store.run(save_task_data(store.sql, claim, column, '{"a":"\\u00e4"}'))
    assert job_row(store, first)[column] == '{"a":"\\u00e4"}'
    assert job_row(store, second)[column] is None


@pytest.mark.parametrize("column", ["metadata", "saved"])
def test_a_task_that_has_lost_its_claim_writes_nothing(store: Store, column: Column) -> None:
    new = job()
    (lost,) = store.claimed(new)
    store.settle(Released(lost))
    store.claim(store.worker())
    before = all_rows(store)
    assert not store.run(save_task_data(store.sql, lost, column, "{}"))
    assert all_rows(store) == before


def test_the_next_claim_has_what_was_saved(store: Store) -> None:
    new = job(metadata='{"n":1}')
    (claim,) = store.claimed(new)
    assert (claim.metadata, claim.saved) == ('{"n":1}', None)
    store.run(save_task_data(store.sql, claim, "saved", "[1]"))
    store.run(save_task_data(store.sql, claim, "metadata", '{"n":2}'))
    store.settle(Released(claim))
    (again,) = store.claim(store.worker())
    assert (again.metadata, again.saved) == ('{"n":2}', "[1]")


def test_reports_of_many_tasks_are_written_together(store: Store) -> None:
    jobs = [job() for _ in range(3)]
    claims = store.claimed(*jobs)
    given = [report(claims[0], "1", None), report(claims[1], None, "a\nb"), report(claims[2], "3", "c")]
    assert store.run(write_reports(store.sql, given)) == {claim.claim_id for claim in claims}
    assert store.run(write_reports(store.sql, [report(claims[1], "2", "c")])) == {claims[1].claim_id}
    found = [(record.progress, record.log) for record in store.find(*jobs)]
    assert found == [("1", None), ("2", "a\nb\nc"), ("3", "c")]


def test_no_reports_are_no_statement(store: Store) -> None:
    assert store.run(write_reports(store.sql, [])) == set()


def test_the_last_report_of_a_task_that_has_just_ended_is_written(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.settle(Finished(claim))
    assert store.run(write_reports(store.sql, [report(claim, "9", "end")])) == {claim.claim_id}
    assert (job_row(store, new)["progress"], job_row(store, new)["log"]) == ("9", "end")


def test_a_report_of_a_lost_claim_is_not_written(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.settle(failed(claim, "pruned"), process_name="other", by_owner=False)
    before = all_rows(store)
    assert store.run(write_reports(store.sql, [report(claim, "9", "late")])) == set()
    assert all_rows(store) == before


def test_the_newest_part_of_a_log_is_kept(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    for letter in "abc":
        store.run(write_reports(store.sql, [report(claim, None, letter * (LOG_CHARACTERS // 2))]))
    log = job_row(store, new)["log"]
    assert len(log) == LOG_CHARACTERS
    assert log == "b" * (LOG_CHARACTERS // 2 - 1) + "\n" + "c" * (LOG_CHARACTERS // 2)


@pytest.mark.only_on("postgres", "mariadb")
def test_a_report_does_not_wait_for_a_row_that_a_task_has_locked(store: Store) -> None:
    first, second = job(), job()
    claim, other = store.claimed(first, second)
    task = OpenTransaction(store.alias)
    try:
        task.begin()
        assert task.do(lambda its: its.run(save_task_data(its.sql, claim, "saved", "1")))
        both = [report(claim, "1"), report(other, "2")]
        assert store.run(write_reports(store.sql, both)) == {other.claim_id}
        task.end(commit=True)
        assert store.run(write_reports(store.sql, both[:1])) == {claim.claim_id}
    finally:
        task.close()
    assert [(record.progress, record.saved) for record in store.find(first, second)] == [("1", "1"), ("2", None)]
