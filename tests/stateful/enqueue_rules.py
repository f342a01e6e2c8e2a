"""Rules that add jobs: enqueued at once or in a transaction that stays open, dispatched, ticked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from steady_queue.backend import SteadyQueueBackend
from steady_queue.db.aliases import django_driver
from steady_queue.jobs.enqueueing import enqueue as production
from steady_queue.jobs.enqueueing.enqueued import Results
from steady_queue.store.operations.dispatch import dispatch
from steady_queue.store.operations.recurring.entries import switch
from steady_queue.store.operations.recurring.ticks import Tick, enqueue_ticks
from tests.stateful.base import ENTRIES, BaseMachine, Pending, batches, orders, step, which
from tests.support.databases.open_transactions import OpenTransaction
from tests.support.store.jobs import PATH

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob
    from tests.stateful.base import Order
    from tests.support.store.stores import Store

#: The first of all ticks.
FIRST = datetime(2030, 1, 1, tzinfo=UTC)
SESSIONS = 2


class EnqueueRules(BaseMachine):
    @step
    @rule(batch=batches, again=st.booleans())
    def enqueue(self, batch: list[Order], again: bool) -> None:
        """Perhaps twice, as after a lost reply."""
        jobs = self.put_in(batch)
        if again and jobs:  # a discarded job cannot be distinguished from one that was never stored
            assert not self.store.enqueue(*jobs, is_repeated=True, limits=self.limits).discarded

    # Under several names it comes more often than other rules.
    enqueue_again = enqueue_more = enqueue

    @step
    @rule(batch=batches)
    def enqueue_and_crash(self, batch: list[Order]) -> None:
        """In a transaction that commits, by a process that dies before it allocates slots.

        The keys differ from those of the other rules: their slots are free.
        """
        now = self.store.now()
        orders = [order._replace(limit=order.limit and (order.limit[0].upper(), order.limit[1])) for order in batch]
        jobs = [self.new_job(order, now) for order in orders]
        with transaction.atomic(using=self.alias):
            self.store.enqueue(*jobs, promoting=False)
        self.model.store(jobs)

    # -- in an open transaction ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.may_write and sum(s.is_open for s in self.sessions) < SESSIONS)
    @rule()
    def begin(self) -> None:
        session = next((session for session in self.sessions if not session.is_open), None)
        if session is None:
            session = OpenTransaction(self.alias)
            self.sessions.append(session)
        session.begin()
        self.pending[session] = Pending()

    @precondition(lambda self: self.is_any_open)
    @rule(number=which, batch=batches, crashes=st.booleans())
    def enqueue_in_a_transaction(self, number: int, batch: list[Order], crashes: bool) -> None:
        """`crashes`: after the commit, before slots are allocated."""
        session = self.open_session(number)
        now = self.store.now()
        jobs = [self.new_job(order, now) for order in batch]
        session.do(partial(_stored if crashes else _stored_and_admitted, jobs))
        blocked: list[NewJob] = []
        pending = self.pending[session]
        pending.rows.append(lambda: blocked.extend(self.model.store(jobs)))
        if not crashes:
            pending.afterwards.append(lambda: self.model.admit(blocked, {}))

    @precondition(lambda self: self.is_any_open)
    @rule(number=which)
    def commit(self, number: int) -> None:
        session = self.open_session(number)
        session.end(commit=True)
        pending = self.pending.pop(session)
        self.model.held -= {claim.job_id for claim in pending.claims}
        for effect in (*pending.rows, *pending.afterwards):
            effect()

    @precondition(lambda self: self.is_any_open)
    @rule(number=which)
    def roll_back(self, number: int) -> None:
        session = self.open_session(number)
        session.end(commit=False)
        self.forget(session)

    def open_session(self, number: int) -> OpenTransaction:
        opened = [session for session in self.sessions if session.is_open]
        return opened[number % len(opened)]

    # -- in time ------------------------------------------------------------------------------------------------------

    @step
    @rule(limit=st.sampled_from([1, 2, 100]))
    def dispatch(self, limit: int) -> None:
        moved = self.store.run(dispatch(self.sql, limit, self.limits))
        assert (moved.moved, moved.discarded) == self.model.dispatch(limit, self.limits)

    @step
    @rule(
        key=st.sampled_from(ENTRIES),
        minutes=st.lists(st.integers(-1, 2), min_size=1, max_size=3),
        order=orders,
        schedulers=st.integers(1, 2),
    )
    def tick(self, key: str, minutes: list[int], order: Order, schedulers: int) -> None:
        """Ticks around the last one of their entry. Each scheduler has the same, with jobs of its own."""
        last = self.model.ticks.last(key) or FIRST
        moments = [last + timedelta(minutes=minute) for minute in minutes]
        for _ in range(schedulers):
            now = self.store.now()
            jobs = [self.new_job(order, now) for _ in minutes]
            ticks = [Tick(key, at, self.updated[key], job.id, job) for at, job in zip(moments, jobs, strict=True)]
            ticked = self.store.run(enqueue_ticks(self.sql, ticks, self.limits))
            given = [] if key in self.switched_off else [(key, at, job) for at, job in zip(moments, jobs, strict=True)]
            assert (set(ticked.ids), ticked.discarded) == self.model.tick(given, self.limits)

    @step
    @rule(key=st.sampled_from(ENTRIES), on=st.booleans(), is_lower=st.booleans())
    def change_the_code(self, key: str, on: bool, is_lower: bool) -> None:
        """Another limit, and an entry that is switched on or off."""
        self.limits = {PATH: 1} if is_lower else {}
        assert self.store.run(switch(self.sql, key, on=on))
        (self.switched_off.discard if on else self.switched_off.add)(key)
        self.read_entries()


def _stored(jobs: list[NewJob], store: Store) -> None:
    store.enqueue(*jobs, promoting=False)


def _stored_and_admitted(jobs: list[NewJob], store: Store) -> None:
    production.write_jobs(django_driver(store.alias), SteadyQueueBackend, Results([], jobs))
