"""The base machine: what all rules share, and what is checked after every step."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from django.db import connections
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition

from steady_queue.store.job import FailureKind, Lane, Status
from steady_queue.store.operations.actions.queues import resume
from steady_queue.store.operations.dispatch import dispatch
from steady_queue.store.operations.maintenance.steps import promote_stranded
from steady_queue.store.operations.maintenance.sweeps import sweep_expired
from steady_queue.store.operations.processes.registration import NewProcess, register
from steady_queue.store.operations.recurring.entries import NewEntry, persist
from steady_queue.store.outcome import Finished
from tests.stateful.claim_history import ClaimHistory
from tests.stateful.clock import HALF, HOUR, id_in, make_rows_older
from tests.stateful.model import Model
from tests.stateful.snapshot import find_stuck_jobs, snapshot_of_database, snapshot_of_model
from tests.support.databases.invariants import violations
from tests.support.databases.open_transactions import OpenTransaction, set_lock_timeout
from tests.support.databases.tables import empty_tables
from tests.support.store.jobs import PATH, discarding, job, limited
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from steady_queue.store.job import Claim, NewJob

QUEUES = ("default", "mail", "mails")
ENTRIES = ("hourly", "nightly")
#: An index into any list, modulo its length.
which = st.integers(0, 63)
some = st.lists(which, min_size=1, max_size=4)


class Order(NamedTuple):
    """A job that is to be enqueued."""

    queue: str
    priority: int
    lane: Lane
    #: In so many hours; 0 is in the past.
    delay: int | None
    limit: tuple[str, int] | None
    is_discarding: bool
    #: In so many hours; 0 is in the past.
    expires: int | None = None


orders = st.builds(
    Order,
    queue=st.sampled_from(QUEUES),
    priority=st.sampled_from([0, 0, 5, -5]),
    lane=st.sampled_from([Lane.ASYNC, Lane.ASYNC, Lane.THREAD]),
    delay=st.sampled_from([None, None, None, 0, 1, 2]),
    limit=st.sampled_from([None, None, ("a", 1), ("b", 2), ("c", 1), ("c", 3)]),
    is_discarding=st.sampled_from([False, False, True]),
    expires=st.sampled_from([None, None, None, None, 0, 1, 1, 2]),
)
batches = st.lists(orders, min_size=1, max_size=5)


@dataclass(slots=True)
class Pending:
    """What a transaction that is open means for the model, if it commits."""

    #: The rows it has written, which are there with the commit; and what is done after that.
    rows: list[Callable[[], object]] = field(default_factory=list)
    afterwards: list[Callable[[], object]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)


#: SQLite has one writer: while a transaction is open, no other connection writes.
step = precondition(lambda self: self.may_write)
#: Advancing time changes all rows, which an open transaction locks.
calm = precondition(lambda self: not self.is_any_open)


class EveryRule:
    """Stands in for Hypothesis's flags of left out rules, and leaves out none."""

    def is_enabled(self, _: object) -> bool:
        return True


class BaseMachine(RuleBasedStateMachine):
    """One database, its model, and the processes and transactions on it."""

    def __init__(self, alias: str, *, is_long: bool = False) -> None:
        super().__init__()
        self.alias = alias
        self.is_long = is_long
        empty_tables(alias)
        set_lock_timeout(alias)
        self.store = SyncStore(alias)
        self.sql = self.store.sql
        self.model = Model(self.store.now())
        self.history = ClaimHistory()
        #: Every claim that the store ever returned, also one that was rolled back.
        self.claims: list[Claim] = []
        #: Every process that there ever was.
        self.processes: list[UUID] = []
        #: The limits of the code, which win over those stored with the jobs.
        self.limits: dict[str, int] = {}
        self.updated: dict[str, datetime] = {}
        self.switched_off: set[str] = set()
        self.sessions: list[OpenTransaction] = []
        self.pending: dict[OpenTransaction, Pending] = {}

    @initialize(batch=st.lists(orders, min_size=6, max_size=6), all_rules=st.booleans())
    def open_for_business(self, batch: list[Order], all_rules: bool) -> None:
        if all_rules or not self.is_long:
            self._leave_no_rule_out()
        for _ in range(2):
            self.new_process()
        self.put_in(batch)
        wanted = [NewEntry(key, PATH, "* * * * *", None, "none", "[1,[],{}]", None, None, "") for key in ENTRIES]
        self.store.run(persist(self.sql, wanted, lambda path: True))
        self.read_entries()

    def _leave_no_rule_out(self) -> None:
        """Hypothesis leaves out half of the rules in each example. That finds more in thousands, and less in a few."""
        strategy: Any = getattr(self, "_rules_strategy", None)
        if hasattr(strategy, "enabled_rules_strategy"):
            strategy.enabled_rules_strategy = st.just(EveryRule())

    # -- who acts -----------------------------------------------------------------------------------------------------

    @property
    def is_any_open(self) -> bool:
        return any(session.is_open for session in self.sessions)

    @property
    def may_write(self) -> bool:
        return not (self.is_any_open and connections[self.alias].vendor == "sqlite")

    def new_process(self) -> UUID:
        process = NewProcess(uuid4(), "worker", f"worker {len(self.processes)}", 4711, "somewhere")
        self.store.run(register(self.sql, process))
        self.processes.append(process.id)
        self.model.processes[process.id] = self.model.hour
        return process.id

    def read_entries(self) -> None:
        """As a scheduler has read them, also those that were switched off since."""
        rows = self.store.ask("SELECT task_key, updated_at FROM steady_queue_recurringtask", returns=".t")
        self.updated.update((str(key), updated_at) for key, updated_at in rows)

    def put_in(self, batch: Sequence[Order]) -> list[NewJob]:
        """Enqueue the jobs; returns them if none of them was discarded."""
        now = self.store.now()
        jobs = [self.new_job(order, now) for order in batch]
        stored = self.store.enqueue(*jobs, limits=self.limits)
        assert stored.discarded == self.model.admit(self.model.store(jobs), self.limits)
        return [] if stored.discarded else jobs

    # -- what is acted on ---------------------------------------------------------------------------------------------

    def new_job(self, order: Order, now: datetime) -> NewJob:
        options: dict[str, Any] = {
            "id": id_in(self.model.hour),
            "queue_name": order.queue,
            "priority": order.priority,
            "lane": order.lane,
        }
        if order.delay is not None:
            options["scheduled_at"] = (now + order.delay * HOUR - HALF).replace(microsecond=0)
        if order.expires is not None:
            # One that is to be discarded, and has expired: it depends on its place in the queue which of both it is.
            hours = max(order.expires, int(order.is_discarding))
            options["expires_at"] = (now + hours * HOUR - HALF).replace(microsecond=0)
        if order.limit is None:
            return job(**options)
        return (discarding if order.is_discarding else limited)(*order.limit, **options)

    def jobs_at(self, numbers: Sequence[int]) -> list[UUID]:
        """Some jobs that no open transaction has claimed, and one that does not exist."""
        ids = sorted(self.model.jobs.keys() - self.model.held)
        return list(dict.fromkeys([*(ids[number % len(ids)] for number in numbers if ids), uuid4()]))

    def claims_at(self, numbers: Sequence[int]) -> list[Claim]:
        """Some claims, mostly new ones; many have been settled or released."""
        found = [self.claims[-1 - number % len(self.claims)] for number in numbers if self.claims]
        return list({claim.claim_id: claim for claim in found}.values())

    def read_due_times(self) -> None:
        """When jobs are due that were scheduled again: after half an hour, or three halves, by the database's clock."""
        undated = [job for job in self.model.those(Status.SCHEDULED) if job.due is None]
        if undated:
            now = self.store.now()
            text = "SELECT job_id, scheduled_at FROM steady_queue_scheduledexecution"
            due = {row[0]: row[1] for row in self.store.ask(text, returns="ut")}
            for job in undated:
                job.due = due[job.new.id]
                assert now < job.due < now + 2 * HOUR

    # -- what must be -------------------------------------------------------------------------------------------------

    @invariant()
    def everything_is_where_it_must_be(self) -> None:
        self.resolve_doubtful()
        found = snapshot_of_database(self.store).differences(snapshot_of_model(self.model))
        found += violations(self.alias)
        found += self.history.violations()
        assert not found, "\n".join(found)

    def resolve_doubtful(self) -> None:
        if self.model.doubtful:
            text = "SELECT job_id FROM steady_queue_failedexecution"
            self.model.resolve_doubtful({row[0] for row in self.store.ask(text, returns="u")})
            self.model.doubtful.clear()

    def nothing_is_stuck(self) -> None:
        found = find_stuck_jobs(snapshot_of_database(self.store), self.model, self.limits)
        assert not found, "\n".join(found)

    # -- the end ------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # otherwise the failure is reported already
                self._drain()
        finally:
            for session in self.sessions:
                session.close()

    def _drain(self) -> None:
        """Run every job to its end, and check that each has exactly one end."""
        for session in self.sessions:
            if session.is_open:
                session.end(commit=False)
                self.forget(session)
        for queue in sorted(self.model.pauses):
            self.store.run(resume(self.sql, queue))
        self.model.pauses.clear()
        self._settle_all()
        process_id = self.new_process()
        make_rows_older(self.alias, 9)
        self.store.run(sweep_expired(self.sql))
        for _ in range(200):
            dispatched = self.store.run(dispatch(self.sql, 100)).moved
            self.store.run(promote_stranded(self.sql))
            claims = [claim for lane in Lane for claim in self.store.claim(process_id, 100, lane=lane)]
            self.history.begin(claims)
            if not claims and not dispatched:
                break
            self._finish(claims)
        self._all_have_ended()

    def _settle_all(self) -> None:
        """Finish the remaining claims of all processes."""
        live = {claim.claim_id: claim for claim in self.claims if claim.claim_id in self.history.open}
        assert len(live) == len(self.history.open)
        self._finish(list(live.values()))

    def _finish(self, claims: Sequence[Claim]) -> None:
        if claims:
            settled = self.store.settle(*(Finished(claim) for claim in claims))
            assert {verdict.value for verdict in settled.verdicts.values()} == {"applied"}
        for claim in claims:
            self.history.end(claim.claim_id, "finished")

    def _all_have_ended(self) -> None:
        found = violations(self.alias) + list(self.history.violations())
        snapshot = snapshot_of_database(self.store)
        for id_, shown in snapshot.jobs.items():
            if shown.status not in (Status.FINISHED.value, Status.FAILED.value):
                found.append(f"{id_} has not ended: {shown}")
            attempts = shown.attempts + self.history.refused[id_]
            ends = self.history.over[id_] + self.history.cancelled[id_] + self.model.ended_waiting[id_]
            # Without the knowledge of the model, in the end.
            expired = self.model.jobs[id_].status is not Status.FAILED and shown.failure == FailureKind.EXPIRED
            ends += expired
            if not (attempts == self.history.over[id_] and ends == 1 + self.history.retried[id_]):
                found.append(f"{id_} ended {self.history.over[id_]} times, and has {shown.attempts} attempts")
        assert not found, "\n".join(found)

    def forget(self, session: OpenTransaction) -> None:
        """Undo in the model what a rolled back transaction did."""
        pending = self.pending.pop(session)
        self.model.held -= {claim.job_id for claim in pending.claims}
        self.claims += pending.claims
