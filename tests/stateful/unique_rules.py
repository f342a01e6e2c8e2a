"""Rules of unique jobs, enqueued and refused, returned or replaced; and of the sweeps of keys and expired jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from steady_queue.errors import DuplicateTask, StoreConflict
from steady_queue.store.job import OnDuplicate, Until
from steady_queue.store.operations.maintenance.sweeps import sweep_expired, sweep_unique_keys
from tests.stateful.action_rules import ActionRules
from tests.stateful.base import orders, step
from tests.stateful.clock import HALF, HOUR
from tests.stateful.model_job import WAITING
from tests.stateful.model_keys import Key

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.store.job import NewJob
    from tests.stateful.base import Order
    from tests.stateful.model_job import Job

MICROSECOND = timedelta(microseconds=1)
KEYS = ("one", "two")
ways = st.sampled_from([OnDuplicate.REJECT, OnDuplicate.RETURN_EXISTING, OnDuplicate.REPLACE])


class UniqueRules(ActionRules):
    @step
    @rule(
        order=orders,
        key=st.sampled_from(KEYS),
        until=st.sampled_from(Until),
        hours=st.sampled_from([None, None, None, 1, 2]),
        on_duplicate=ways,
    )
    def enqueue_unique(
        self, order: Order, key: str, until: Until, hours: int | None, on_duplicate: OnDuplicate
    ) -> None:
        """The key is that of another job until it was started or has ended, and for some hours at least."""
        new = self.new_job(order, self.store.now())._replace(unique_key=key, unique_until=until.value)
        within = None if hours is None else (hours * HOUR - HALF) // MICROSECOND
        holder_id = self.model.keys.holder(key, self.model)
        if holder_id is not None and self.refuses(holder_id, on_duplicate):
            self.enqueue_refused(new, on_duplicate, within)
            return
        stored = self.store.enqueue(new, limits=self.limits, on_duplicate=on_duplicate, within_microseconds=within)
        holder: Job | None = None
        if holder_id is None:
            assert (stored.existing, stored.replaced) == ({}, [])
        elif on_duplicate is OnDuplicate.RETURN_EXISTING:
            assert stored.existing == {new.id: holder_id}
            return
        else:
            assert stored.replaced == [holder_id]
            holder = self.model.jobs[holder_id]
        taken = Key(new.id, until, self.model.hour + (hours or 0))
        assert stored.discarded == self.model.replace(holder, new, taken, self.limits)

    enqueue_unique_again = enqueue_unique_more = enqueue_unique

    @step
    @rule()
    def sweep_keys(self) -> None:
        """After it there is no key that no job needs."""
        self.store.run(sweep_unique_keys(self.sql))
        rows = self.store.ask("SELECT unique_key FROM steady_queue_uniquekey", returns=".")
        assert {row[0] for row in rows} == self.model.keys.needed(self.model).keys()

    @step
    @rule()
    def sweep_expired(self) -> None:
        swept = self.store.run(sweep_expired(self.sql, self.limits))
        assert (set(swept.expired), swept.promoted) == self.model.sweep_expired(self.limits)

    def refuses(self, holder_id: UUID, on_duplicate: OnDuplicate) -> bool:
        """Whether a new job is refused because of another one."""
        holder = self.model.jobs.get(holder_id)
        match on_duplicate:
            case OnDuplicate.RETURN_EXISTING:
                return holder is None
            case OnDuplicate.REPLACE:
                return holder is None or holder.status not in WAITING or holder_id in self.model.held
            case _:
                return True

    def enqueue_refused(self, new: NewJob, on_duplicate: OnDuplicate, within: int | None) -> None:
        holder_id = self.model.keys.holder(str(new.unique_key), self.model)
        # One that an open transaction has claimed is being changed, and cannot be replaced now.
        is_changing = on_duplicate is OnDuplicate.REPLACE and holder_id in self.model.held
        with pytest.raises(StoreConflict if is_changing else DuplicateTask) as refused:
            self.store.enqueue(new, limits=self.limits, on_duplicate=on_duplicate, within_microseconds=within)
        if isinstance(refused.value, DuplicateTask):
            assert refused.value.existing_ids == (str(holder_id),)
