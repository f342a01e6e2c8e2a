"""Completion: a task is settled in the transaction in which it writes, before its only commit.

So its effects in the queue's database happen exactly once: a process that dies leaves either both, the rows of the task
and its outcome, or neither. A claim that was lost rolls back what the task wrote.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import steady_queue
from steady_queue import arguments
from steady_queue.db import notify
from steady_queue.db.aliases import queue_alias
from steady_queue.db.task_transaction import TaskTransaction
from steady_queue.db.transaction_guard import guarded
from steady_queue.db.transactions import promote_after_commit
from steady_queue.errors import ClaimLost, CompletionError, ConfigurationError, StoreUnavailable
from steady_queue.events.tracebacks import message_of
from steady_queue.jobs.definition.options import find_backend
from steady_queue.jobs.registry import limits_in_force
from steady_queue.store.operations.promote import limit_in_force, promote
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Completed, Finished, Settlement, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steady_queue.jobs.running.context import TaskControl
    from steady_queue.store.job import Claim

#: How long the promotion after the commit waits for a concurrency key; then maintenance promotes.
KEY_WAIT_SECONDS = 2


class Completion:
    """What `with context.completing(...) as completion` returns: the result may still be set in the block."""

    def __init__(self, result: Any = None) -> None:
        self.result = result
        self.finished: Finished | None = None


class _AlreadyCompleted(Exception):
    """An earlier block of the same attempt was committed, although the reply was lost."""


def run_transactional(
    control: TaskControl,
    process_name: str,
    function: Callable[[], Any],
    check_connections: Callable[[str], None] | None = None,
    *,
    only_if_used: bool = True,
) -> Finished | Completed:
    """Call a transactional task, and settle it in its transaction.

    With `only_if_used`, a task that executes no statement has nothing to be atomic with: it is settled with others,
    which is faster.
    """
    completion = Completion()
    try:
        with completing(control, process_name, only_if_used=only_if_used) as completion:
            completion.result = function()
            if check_connections is not None:
                check_connections(queue_alias())
    except ClaimLost:
        if control.completed is None:
            raise
    if completion.finished is not None:
        return completion.finished
    assert control.completed is not None
    return control.completed


@contextmanager
def completing(
    control: TaskControl, process_name: str, result: Any = None, *, only_if_used: bool = False
) -> Iterator[Completion]:
    """A transaction that settles the task at its end; an exception in the block rolls it back and settles nothing."""
    alias = _check_possible(control)
    claim, completion = control.claim, Completion(result)
    if control.is_replay:
        with guarded(alias) as guard:
            yield completion
            guard.check()
        return
    transaction = TaskTransaction(alias, joins=control.joins_transaction)
    control.is_in_completion = True
    settlement = None
    try:
        with transaction:
            yield completion
            value = None if completion.result is None else arguments.dump_result(completion.result)
            if only_if_used and not transaction.is_used:
                completion.finished = Finished(claim, value)
                return
            transaction.check()
            began = perf_counter()
            # Before the commit: from then on the missing claim must not look as if another process had ended it.
            control.is_completing = True
            settlement = _settle(transaction, Finished(claim, value), process_name)
            _check_verdict(control, settlement)
    except _AlreadyCompleted:
        settlement = Settlement({claim.claim_id: Verdict.APPLIED})
    except BaseException as error:
        _roll_back(control, transaction, settlement, error)
        raise
    finally:
        control.is_in_completion = False
    control.completed = Completed(claim, settlement, value, (perf_counter() - began) * 1000)
    if transaction.callback_error is not None:
        control.completed = ignoring(control.completed, transaction.callback_error)
    if claim.concurrency_key is not None and not control.joins_transaction:
        promoted = _promote(transaction, claim)
        control.completed = replace(control.completed, settlement=replace(settlement, promoted=promoted))


def ignoring(completed: Completed, error: BaseException) -> Completed:
    """The completion of a task that raised an error after it."""
    return replace(completed, ignored=f"{type(error).__name__}: {message_of(error)}")


def find_wrong_database(backend_alias: str) -> str | None:
    """The database of the application, if it is not that of the queue: they have no common transaction."""
    database = getattr(find_backend(backend_alias), "commit_with", "default")
    return database if database != queue_alias() else None


def _check_possible(control: TaskControl) -> str:
    """Return the alias of the queue's database, or raise."""
    if control.is_in_completion or control.completed is not None or control.has_ended:
        raise CompletionError("a task can be completed once only, and by the attempt that runs")
    alias = queue_alias()
    if (other := find_wrong_database(control.claim.backend)) is not None:
        raise ConfigurationError(
            f"the queue is in the database {alias!r} and the application in {other!r} (commit_with): a task and its"
            " writes cannot be committed together"
        )
    return alias


def _settle(transaction: TaskTransaction, finished: Finished, process_name: str) -> Settlement:
    driver = transaction.driver
    return driver.run_without_savepoint(
        settle(
            driver.sql,
            [finished],
            process_name=process_name,
            preserve=steady_queue.preserve_finished_jobs,
            limits=limits_in_force,
            promotes=False,
        )
    )


def _check_verdict(control: TaskControl, settlement: Settlement) -> None:
    """Raise, and so roll back, unless the claim was ended by this transaction."""
    verdict = settlement.verdicts[control.claim.claim_id]
    if verdict is Verdict.REPEATED and control.is_commit_unknown:
        raise _AlreadyCompleted
    if verdict is not Verdict.APPLIED:
        raise ClaimLost("another process has ended the claim of the task: what the task wrote is rolled back")


def _roll_back(
    control: TaskControl, transaction: TaskTransaction, settlement: Settlement | None, error: BaseException
) -> None:
    """Record what a block that was not committed means for the task; raises if it may have been committed."""
    if transaction.is_unknown:
        control.is_commit_unknown = True
        raise StoreUnavailable(
            "the reply of the commit was lost: it is unknown whether the task has been completed", applied="unknown"
        ) from error
    control.is_completing = False
    if isinstance(error, ClaimLost) and settlement is not None:
        control.completed = Completed(control.claim, settlement)


def _promote(transaction: TaskTransaction, claim: Claim) -> int:
    """Pass the slot on, in a transaction of its own: the task's transaction must not wait for keys."""
    driver, key = transaction.driver, str(claim.concurrency_key)
    limit = limit_in_force(limits_in_force, claim.task_path, claim.concurrency_limit)
    promotion = promote(driver.sql, {key: limit}, limits_in_force, KEY_WAIT_SECONDS)
    promoted = promote_after_commit(driver, replace(promotion, retries_lock_timeout=False))
    if promoted:
        notify.wake_workers(driver.alias, driver)
    return len(promoted or ())
