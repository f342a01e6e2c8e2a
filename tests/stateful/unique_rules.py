"""Rules of unique jobs: enqueued, and refused, returned or replaced if another unfinished job has the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from steady_queue.errors import DuplicateTask
from steady_queue.store.job import OnDuplicate, Status, Until
from tests.stateful.action_rules import ActionRules
from tests.stateful.base import orders, step

if TYPE_CHECKING:
    from tests.stateful.base import Order

KEYS = ("one", "two")
ways = st.sampled_from([OnDuplicate.REJECT, OnDuplicate.RETURN_EXISTING, OnDuplicate.REPLACE])


class UniqueRules(ActionRules):
    @step
    @rule(order=orders, key=st.sampled_from(KEYS), on_duplicate=ways)
    def enqueue_unique(self, order: Order, key: str, on_duplicate: OnDuplicate) -> None:
        """The key is that of any unfinished job which was enqueued with it."""
        now = self.store.now()
        new = self.new_job(order, now)._replace(unique_key=key, unique_until=Until.FINISHED.value)
        holder = self.model.holder(key)
        is_busy = holder is not None and (holder.status is Status.CLAIMED or holder.new.id in self.model.held)
        refusing = (OnDuplicate.REJECT, OnDuplicate.REPLACE) if is_busy else (OnDuplicate.REJECT,)
        if holder is not None and on_duplicate in refusing:
            with pytest.raises(DuplicateTask) as refused:
                self.store.enqueue(new, limits=self.limits, on_duplicate=on_duplicate)
            assert refused.value.existing_ids == (str(holder.new.id),)
            return
        stored = self.store.enqueue(new, limits=self.limits, on_duplicate=on_duplicate)
        if holder is None:
            assert (stored.existing, stored.replaced) == ({}, [])
        elif on_duplicate is OnDuplicate.RETURN_EXISTING:
            assert stored.existing == {new.id: holder.new.id}
            return
        else:
            assert stored.replaced == [holder.new.id]
        assert stored.discarded == self.model.replace(holder, new, now, self.limits)

    enqueue_unique_again = enqueue_unique
