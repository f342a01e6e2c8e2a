"""Rules of people: retry, discard, run now, alone or in a transaction of their own; pause and resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import rule

from steady_queue import actions
from steady_queue.store import revision
from steady_queue.store.hurry import run_now
from steady_queue.store.queues import pause, resume
from tests.machine.care import Care
from tests.machine.stage import QUEUES, some, step

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

names = st.sampled_from(QUEUES)


class Hands(Care):
    @step
    @rule(numbers=some)
    def retry(self, numbers: list[int]) -> None:
        ids = self.jobs_at(numbers)
        retried = self.model.retry(ids, self.limits)
        assert set(self.store.run(revision.retry(self.sql, ids, self.limits)).ids) == retried
        self.account.retried.update(retried)

    @step
    @rule(numbers=some)
    def discard(self, numbers: list[int]) -> None:
        ids = self.jobs_at(numbers)
        discarded = self.model.discard(ids, self.limits)
        assert set(self.store.run(revision.discard(self.sql, ids, self.limits)).ids) == discarded

    @step
    @rule(numbers=some)
    def run_now(self, numbers: list[int]) -> None:
        ids = self.jobs_at(numbers)
        hurried = self.model.run_now(ids, self.limits)
        assert set(self.store.run(run_now(self.sql, ids, self.limits)).ids) == hurried

    @step
    @rule(action=st.sampled_from(["retry", "discard", "run_now"]), numbers=some, commits=st.booleans())
    def act_in_a_transaction(self, action: str, numbers: list[int], commits: bool) -> None:
        """Slots are given out after the commit; without one, nothing has happened."""
        ids = self.jobs_at(numbers)
        with transaction.atomic(using=self.alias):
            done = _ids(getattr(actions, f"{action}_many")(ids))
            transaction.set_rollback(not commits, using=self.alias)
        if commits:
            assert done == _ids(getattr(self.model, action)(ids, {}))
            if action == "retry":
                self.account.retried.update(id_ for id_ in ids if str(id_) in done)

    @step
    @rule(queue=names)
    def pause(self, queue: str) -> None:
        assert self.store.run(pause(self.sql, queue)) is (queue not in self.model.pauses)
        self.model.pauses.add(queue)

    @step
    @rule(queue=names)
    def resume(self, queue: str) -> None:
        assert self.store.run(resume(self.sql, queue)) is (queue in self.model.pauses)
        self.model.pauses.discard(queue)


def _ids(ids: Iterable[UUID | str]) -> set[str]:
    return {str(id_) for id_ in ids}
