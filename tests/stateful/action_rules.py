"""Rules of actions: retry, discard, run now, cancel, with or without a transaction; pause and resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import rule

from steady_queue import actions
from steady_queue.store.job import CancelRequest
from steady_queue.store.operations.actions import job_actions as revision
from steady_queue.store.operations.actions.cancellation import cancel, resolve_requests
from steady_queue.store.operations.actions.corrections import retry_with
from steady_queue.store.operations.actions.job_actions import run_now
from steady_queue.store.operations.actions.queues import pause, resume
from tests.stateful.base import QUEUES, calm, orders, some, step
from tests.stateful.process_rules import ProcessRules

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from tests.stateful.base import Order


REQUEST = CancelRequest("Ada", "the end")
OPERATIONS = {"retry": revision.retry, "discard": revision.discard, "run_now": run_now}


class ActionRules(ProcessRules):
    @step
    @rule(action=st.sampled_from(list(OPERATIONS)), numbers=some)
    def act(self, action: str, numbers: list[int]) -> None:
        ids = self.jobs_at(numbers)
        done = self.store.run(OPERATIONS[action](self.sql, ids, self.limits))
        assert set(done.ids) == getattr(self.model, action)(ids, self.limits)
        assert action != "retry" or done.displaced == self.model.displaced
        self.note(action, done.ids)

    @step
    @rule(action=st.sampled_from(list(OPERATIONS)), numbers=some, commits=st.booleans())
    def act_in_a_transaction(self, action: str, numbers: list[int], commits: bool) -> None:
        """Slots are allocated after the commit; after a rollback nothing has changed."""
        ids = self.jobs_at(numbers)
        with transaction.atomic(using=self.alias):
            done = _ids(getattr(actions, f"{action}_many")(ids))
            transaction.set_rollback(not commits, using=self.alias)
        if commits:
            # There the snapshot of a transaction may be old: a job that it does not have can be new.
            options = {"sees_deleted": False} if action == "retry" and self.sql.locks_gaps else {}
            assert done == _ids(getattr(self.model, action)(ids, {}, **options))
            self.note(action, [id_ for id_ in ids if str(id_) in done])

    @step
    @rule(numbers=some, order=orders)
    def retry_with_other_arguments(self, numbers: list[int], order: Order) -> None:
        """Retry one job; it takes the key and the limit of the new arguments."""
        new = self.new_job(order, self.store.now())
        for id_ in self.jobs_at(numbers)[:1]:
            done = self.store.run(retry_with(self.sql, id_, new, self.limits)).ids
            assert set(done) == self.model.retry_with(id_, new, self.limits)
            self.note("retry", done)

    @step
    @rule(numbers=some)
    def cancel(self, numbers: list[int]) -> None:
        """Those that wait end, those that run are requested to stop."""
        ids = self.jobs_at(numbers)
        done = self.store.run(cancel(self.sql, ids, REQUEST, self.limits))
        assert (set(done.ended), set(done.requested)) == self.model.cancel(ids, self.limits)
        self.history.cancelled.update(done.ended)

    @step
    @rule(numbers=some, commits=st.booleans())
    def cancel_in_a_transaction(self, numbers: list[int], commits: bool) -> None:
        ids = self.jobs_at(numbers)
        with transaction.atomic(using=self.alias):
            done = _ids(actions.cancel_many(ids))
            transaction.set_rollback(not commits, using=self.alias)
        if commits:
            ended, requested = self.model.cancel(ids, {})
            assert done == _ids(ended | requested)
            self.history.cancelled.update(ended)

    @calm
    @rule()
    def resolve_requests(self) -> None:
        """Maintenance, for jobs that were requested to stop and do not run."""
        done = self.store.run(resolve_requests(self.sql, self.limits))
        ended = {id_ for ids in done.ended.values() for id_ in ids}
        assert ended == self.model.resolve_requests(self.limits)
        self.history.cancelled.update(ended)

    def note(self, action: str, ids: Iterable[UUID]) -> None:
        if action == "retry":
            self.history.retried.update(ids)

    @step
    @rule(queue=st.sampled_from(QUEUES))
    def pause_or_resume(self, queue: str) -> None:
        """Change the state; a repeated pause or resume changes nothing."""
        is_paused = queue in self.model.pauses
        assert self.store.run(pause(self.sql, queue)) is not is_paused
        if is_paused:
            assert self.store.run(resume(self.sql, queue))
            assert not self.store.run(resume(self.sql, queue))
        self.model.pauses ^= {queue}


def _ids(ids: Iterable[UUID | str]) -> set[str]:
    return {str(id_) for id_ in ids}
