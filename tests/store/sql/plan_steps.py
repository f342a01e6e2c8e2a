"""The operations whose query plans are guarded, each as a step of one transaction, and the indexes that they need."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from steady_queue.store.job import CancelRequest, Lane, OnDuplicate, Status, Uniqueness, Until
from steady_queue.store.operations.actions.bulk_actions import JobFilter, Position, discard_window, retry_window
from steady_queue.store.operations.actions.cancellation import (
    cancel,
    find_requests,
    from_unclaimed_requests,
    resolve_requests,
)
from steady_queue.store.operations.actions.job_actions import discard, retry, run_now
from steady_queue.store.operations.actions.queues import find_waiting_queues, latency, pause, size
from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all
from steady_queue.store.operations.dispatch import dispatch, poll_scheduled
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.maintenance.sweeps import sweep_expired, sweep_unique_keys
from steady_queue.store.operations.processes.registration import NewProcess, deregister, heartbeat, register
from steady_queue.store.operations.promote import promote
from steady_queue.store.operations.recurring import entries as recurring
from steady_queue.store.operations.recurring.entries import NewEntry
from steady_queue.store.operations.recurring.ticks import Tick, clear_ticks, enqueue_ticks
from steady_queue.store.operations.results import find_jobs, find_states
from steady_queue.store.operations.settle import settle
from steady_queue.store.operations.task_data import Report, save_task_data, write_reports
from steady_queue.store.outcome import Finished, Released
from steady_queue.store.statement import Operation
from tests.support.databases.query_plans import Plan, explained
from tests.support.store.jobs import PATH, failed, job, later, limited, unique
from tests.support.store.statements import only

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.store.job import NewJob
    from steady_queue.store.operations.recurring.entries import Entry
    from steady_queue.store.outcome import Outcome
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Statement, T

    Explain = Callable[[Statement], Flow[Plan]]


#: The indexes that each step must have looked something up in. Other tables are looked up by their primary keys.
STEPS: dict[str, set[tuple[str, str]]] = {
    "enqueue again": {("job", "primary")},
    "claim from all queues": {("readyexecution", "sq_ready_all"), ("job", "primary")},
    "claim while something is paused": set(),
    "waiting queues": {("readyexecution", "sq_ready_by_queue")},
    "claim from some queues": {("readyexecution", "sq_ready_by_queue"), ("job", "primary")},
    "settle": {("claimedexecution", "primary"), ("job", "primary")},
    "settle finished": {("claimedexecution", "primary"), ("job", "primary")},
    "settle limited": {
        ("claimedexecution", "primary"),
        ("job", "primary"),
        ("semaphore", "primary"),
        ("semaphore", "sq_semaphore_slot"),
        ("blockedexecution", "sq_blocked_by_key"),
    },
    "promote": {("semaphore", "sq_semaphore_slot"), ("blockedexecution", "sq_blocked_by_key"), ("job", "primary")},
    "poll scheduled": {("scheduledexecution", "sq_scheduled_due")},
    "dispatch": {("scheduledexecution", "sq_scheduled_due"), ("job", "primary")},
    "retry": {("failedexecution", "primary"), ("job", "primary")},
    "discard": {("readyexecution", "primary"), ("scheduledexecution", "primary"), ("job", "primary")},
    "run now": {("scheduledexecution", "primary"), ("blockedexecution", "primary"), ("semaphore", "sq_semaphore_slot")},
    "retry some": {("failedexecution", "primary"), ("job", "primary")},
    "discard some": {("scheduledexecution", "primary"), ("job", "primary")},
    "clear a queue": {("readyexecution", "sq_ready_by_queue"), ("job", "primary")},
    "size": {("readyexecution", "sq_ready_by_queue")},
    "latency": {("readyexecution", "sq_ready_by_queue"), ("job", "primary")},
    "find jobs": {("job", "primary"), ("claimedexecution", "primary"), ("failedexecution", "primary")},
    "find states": {("job", "primary"), ("claimedexecution", "primary"), ("failedexecution", "primary")},
    "enqueue unique": {("uniquekey", "primary"), ("job", "primary")},
    "replace": {("uniquekey", "primary"), ("readyexecution", "primary"), ("job", "primary")},
    "settle unique": {("uniquekey", "sq_unique_by_job"), ("claimedexecution", "primary"), ("job", "primary")},
    "release unique": {("uniquekey", "primary"), ("claimedexecution", "primary"), ("job", "primary")},
    "sweep expired": {("expiry", "sq_expiry"), ("job", "primary"), ("readyexecution", "primary")},
    "sweep unique keys": {("uniquekey", "primary"), ("job", "primary")},
    "cancel": {("claimedexecution", "primary"), ("readyexecution", "primary"), ("job", "primary")},
    "find requests": {("claimedexecution", "primary")},
    "look for requests": {("claimedexecution", "primary")},
    "resolve requests": {("claimedexecution", "primary"), ("readyexecution", "primary")},
    "save task data": {("claimedexecution", "primary"), ("job", "primary")},
    "write reports": {("claimedexecution", "primary"), ("job", "primary")},
    "list recurring": {("recurringtask", "primary")},
    "read recurring": {("recurringtask", "primary"), ("recurringexecution", "sq_recurring_tick")},
    "persist recurring": {("recurringtask", "primary")},
    "switch recurring": {("recurringtask", "primary")},
    "tick": {
        ("recurringtask", "primary"),
        ("recurringexecution", "sq_recurring_tick"),
        ("recurringexecution", "primary"),
    },
    "clear ticks": {("recurringexecution", "primary")},
    "heartbeat": {("process", "primary")},
    "deregister": {("process", "primary")},
}


class Observer:
    """Runs operations as steps of one flow, and keeps their plans."""

    def __init__(self, explain: Explain) -> None:
        self.explain = explain
        self.plans: dict[str, list[Plan]] = {step: [] for step in STEPS}

    def step(self, name: str, operation: Operation[T]) -> Flow[T]:
        return explained(operation.flow(), self.explain, self.plans[name])


def day(sql: Dialect, observer: Observer) -> Flow[None]:
    process = NewProcess(uuid4(), "worker", "worker", 1, "host")
    yield from register(sql, process).flow()
    plain = [job(queue_name="own", priority=90 - n) for n in range(6)]
    key = [limited("own", 2, queue_name="own", priority=40) for _ in range(6)]
    due, due_next, future = (job(scheduled_at=later()) for _ in range(3))
    yield from enqueue(sql, [*plain, *key, due, future]).flow()
    make_due = "UPDATE steady_queue_scheduledexecution SET scheduled_at = ? WHERE job_id = ?"
    yield sql.statement(make_due, later(days=-9), due.id)
    step = observer.step
    yield from step("enqueue again", enqueue(sql, plain, is_repeated=True))
    claims, _ = yield from step("claim from all queues", claim_from_all(sql, ClaimRequest(process.id, Lane.ASYNC, 4)))
    yield from pause(sql, "nowhere").flow()
    assert (
        yield from step("claim while something is paused", claim_from_all(sql, ClaimRequest(process.id, Lane.ASYNC, 4)))
    )[1]
    assert "own" in (yield from step("waiting queues", find_waiting_queues(sql))).names[Lane.ASYNC]
    wanted = ClaimRequest(process.id, Lane.ASYNC, 4, ["nowhere", "own"])
    claims += yield from step("claim from some queues", claim(sql, wanted))
    assert [claim.job_id for claim in claims] == [new.id for new in (*plain, *key[:2])]
    one, two, three, four, five, six, seven, eight = claims
    outcomes: list[Outcome] = [Finished(one, "1"), Finished(two), failed(three), Released(four)]
    yield from step("settle", settle(sql, outcomes, process_name="worker"))
    yield from step("settle finished", settle(sql, [Finished(five), Finished(six)], process_name="w", preserve=False))
    settled = yield from step("settle limited", settle(sql, [Finished(seven), failed(eight)], process_name="w"))
    assert settled.promoted == 2
    assert len((yield from step("promote", promote(sql, {"own": 4, "other": 1}, {key[0].task_path: 4})))) == 2
    poll = yield from step("poll scheduled", poll_scheduled(sql, 3))
    assert poll.moved > 0 or poll.is_due
    yield from enqueue(sql, [due_next]).flow()
    yield sql.statement(make_due, later(days=-9), due_next.id)
    assert (yield from step("dispatch", dispatch(sql, 10))).moved > 0
    yield from step("retry some", retry_window(sql, JobFilter(queue="none"), Position(), size=20))
    assert len((yield from step("retry", retry(sql, [three.job_id, eight.job_id]))).ids) == 2
    to_run_now, crowd = job(scheduled_at=later()), [limited("crowd") for _ in range(2)]
    yield from enqueue(sql, [to_run_now, *crowd]).flow()
    assert len((yield from step("run now", run_now(sql, [to_run_now.id, crowd[1].id]))).ids) == 2
    yield from step("discard some", discard_window(sql, Status.SCHEDULED, JobFilter(queue="none"), Position(), size=20))
    assert (yield from step("size", size(sql, "own"))) > 0
    assert (yield from step("latency", latency(sql, "own"))) is not None
    unwanted = [plain[3].id, key[2].id, due.id, future.id]
    assert len((yield from step("discard", discard(sql, unwanted))).ids) == 4
    yield from step("clear a queue", discard_window(sql, Status.READY, JobFilter(queue="default"), Position(), size=3))
    ids = [new.id for new in (*plain, *key)]
    assert len((yield from step("find jobs", find_jobs(sql, ids)))) > 5
    assert len((yield from step("find states", find_states(sql, ids, with_reports=True)))) > 5
    yield from unique_day(sql, observer, process.id)
    yield from control_day(sql, observer, process.id)
    yield from recurring_day(sql, observer)
    assert (yield from step("heartbeat", heartbeat(sql, process.id))).is_known
    yield from step("deregister", deregister(sql, process.id))


def unique_day(sql: Dialect, observer: Observer, process_id: UUID) -> Flow[None]:
    step = observer.step
    options: dict[str, Any] = {"queue_name": "unique", "lane": Lane.THREAD}
    jobs = [unique(f"own {n}", **options) for n in range(3)]
    late = unique("late", expires_at=later(days=-1))
    yield from enqueue(sql, [*jobs, late]).flow()
    again, other = unique("own 0"), unique("own 5")
    rules = {again.id: Uniqueness(Until.FINISHED, OnDuplicate.RETURN_EXISTING)}
    stored = yield from step("enqueue unique", enqueue(sql, [again, other], rules=rules))
    assert stored.existing == {again.id: jobs[0].id}
    new = unique("own 2", **options)
    replacing = enqueue(sql, [new], rules={new.id: Uniqueness(Until.FINISHED, OnDuplicate.REPLACE)})
    assert (yield from step("replace", replacing)).replaced == [jobs[2].id]
    claims = yield from claim(sql, ClaimRequest(process_id, Lane.THREAD, 3, ["unique"])).flow()
    assert len(claims) == 3
    yield from step("settle unique", settle(sql, [Finished(claims[0]), failed(claims[1])], process_name="w"))
    yield from step("release unique", settle(sql, [Released(claims[2])], process_name="w"))
    assert (yield from step("sweep expired", sweep_expired(sql))).expired == [late.id]
    yield from step("sweep unique keys", sweep_unique_keys(sql))


def control_day(sql: Dialect, observer: Observer, process_id: UUID) -> Flow[None]:
    step = observer.step
    jobs = [job(queue_name="control", priority=9 - n) for n in range(4)]
    yield from enqueue(sql, jobs).flow()
    claims = yield from claim(sql, ClaimRequest(process_id, Lane.ASYNC, 3, ["control"])).flow()
    reports = [Report(claim.job_id, claim.claim_id, '{"done": 1}', '"a line"') for claim in claims]
    assert len((yield from step("write reports", write_reports(sql, reports)))) == 3
    assert (yield from step("save task data", save_task_data(sql, claims[0], "saved", "1")))
    asked = [jobs[0].id, jobs[1].id, jobs[3].id]
    cancelled = yield from step("cancel", cancel(sql, asked, CancelRequest("Ada", "the end")))
    assert (len(cancelled.requested), len(cancelled.ended)) == (2, 1)
    assert len((yield from step("find requests", find_requests(sql, process_id))).claims) == 2
    yield from settle(sql, [Released(claims[0])], process_name="w").flow()
    look = sql.statement(f"SELECT EXISTS (SELECT 1{from_unclaimed_requests(sql)})", returns=".")
    assert (yield from step("look for requests", Operation("look", lambda: only(look))))[0][0]
    assert len((yield from step("resolve requests", resolve_requests(sql))).ended) == 1


def recurring_day(sql: Dialect, observer: Observer) -> Flow[None]:
    step = observer.step
    mine = [recurs(f"own {n}") for n in range(3)]
    yield from recurring.persist(sql, mine, lambda path: False).flow()
    changed = [mine[0], mine[1]._replace(schedule="0 * * * *")]
    yield from step("persist recurring", recurring.persist(sql, changed, lambda path: path == "nowhere"))
    assert (yield from step("list recurring", recurring.list_entries(sql))).changed
    keys = [entry.task_key for entry in mine]
    read = yield from step("read recurring", recurring.read_entries(sql, keys))
    ticks = [made_tick(entry, job()) for entry in read]
    assert len((yield from step("tick", enqueue_ticks(sql, ticks))).ids) == 3
    assert (yield from step("switch recurring", recurring.switch(sql, "own 1", on=False)))
    yield from step("clear ticks", clear_ticks(sql, later(days=3), timedelta(days=1)))


def made_tick(entry: Entry, new: NewJob) -> Tick:
    return Tick(entry.new.task_key, later(hours=1), entry.updated_at, new.id, new)


def recurs(key: str) -> NewEntry:
    return NewEntry(key, PATH, "* * * * *", None, "none", "[1,[],{}]", None, None, "")
