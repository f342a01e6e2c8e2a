"""EXPLAIN guards: every statement of the hot paths is a lookup in an index, after any history of the tables.

The plans are made once for each database, in a database of its own: fresh from the migration, filled with 50,000 jobs
and analyzed, emptied and analyzed, and refilled without new statistics.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connections

from steady_queue.errors import StoreDataError
from steady_queue.store.job import Lane, OnDuplicate, Status, Uniqueness, Until
from steady_queue.store.operations import recurring
from steady_queue.store.operations.actions import discard, retry, run_now
from steady_queue.store.operations.bulk_actions import JobFilter, Position, discard_window, retry_window
from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all
from steady_queue.store.operations.dispatch import dispatch
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.processes import NewProcess, deregister, heartbeat, register
from steady_queue.store.operations.promote import promote
from steady_queue.store.operations.queues import find_waiting_queues, latency, pause, size
from steady_queue.store.operations.recurring import NewEntry
from steady_queue.store.operations.results import find_jobs, find_states
from steady_queue.store.operations.settle import settle
from steady_queue.store.operations.sweeps import sweep_expired, sweep_unique_keys
from steady_queue.store.operations.ticks import Tick, clear_ticks, enqueue_ticks
from steady_queue.store.outcome import Finished, Released
from steady_queue.store.statement import Operation
from tests.conftest import chosen
from tests.support.databases import query_plans as planning
from tests.support.databases.aliases import extra_database, twin_settings
from tests.support.databases.query_plans import Plan, explained
from tests.support.databases.tables import empty_tables, query
from tests.support.store.jobs import PATH, failed, job, later, limited, new_job_id, unique
from tests.support.store.stores import async_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from anyio.from_thread import BlockingPortal

    from steady_queue.store.job import NewJob
    from steady_queue.store.operations.recurring import Entry
    from steady_queue.store.outcome import Outcome
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Statement, T
    from tests.support.servers import MariaDB, Postgres
    from tests.support.store.stores import Store

    Explain = Callable[[Statement], Flow[Plan]]
    #: The plans of each step, by the state of the tables and the way of planning.
    PlansOfSteps = dict[tuple[str, str], dict[str, list[Plan]]]

STATES = ("fresh", "full", "emptied", "refilled")
WAYS: dict[str, dict[str, Explain]] = {
    "postgres": {"custom": planning.explain_postgres, "generic": planning.explain_postgres_generic},
    "mariadb": {"custom": planning.explain_mariadb},
    "sqlite": {"custom": planning.explain_sqlite},
}

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


#: The setup of the module is expensive: its tests stay in one process.
pytestmark = pytest.mark.xdist_group("plans")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    databases = chosen(metafunc.config)
    ways = [(database, way) for database in databases for way in WAYS[database]]
    metafunc.parametrize(
        ("plans_of_steps", "way"),
        ways,
        indirect=["plans_of_steps"],
        scope="module",
        ids=["-".join(way) for way in ways],
    )


@pytest.fixture(scope="module")
def plans_of_steps(
    request: pytest.FixtureRequest,
    portal: BlockingPortal,
    servers: dict[str, Postgres | MariaDB],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PlansOfSteps]:
    """The plans of every step, in every state of the tables."""
    database: str = request.param
    name = "steady_queue_plans"
    with ExitStack() as opened:
        if database == "sqlite":
            name = str(tmp_path_factory.mktemp("plans") / "plans.sqlite3")
        else:
            servers[database].create_database(name)
            opened.callback(servers[database].drop_database, name)
        alias = opened.enter_context(extra_database(f"{database}-plans", twin_settings(database, NAME=name)))
        call_command("migrate", database=alias, run_syncdb=True, verbosity=0)
        store = opened.enter_context(async_store(alias, portal))
        yield dict(_states(store, WAYS[database]))


def _states(store: Store, ways: dict[str, Explain]) -> Iterator[tuple[tuple[str, str], dict[str, list[Plan]]]]:
    def plans(state: str) -> Iterator[tuple[tuple[str, str], dict[str, list[Plan]]]]:
        for way, explain in ways.items():
            yield (state, way), steps_of(store, explain)

    yield from plans("fresh")
    fill(store, 50_000)
    analyze(store.alias)
    yield from plans("full")
    empty_tables(store.alias)
    analyze(store.alias)
    yield from plans("emptied")
    fill(store, 2_000)
    yield from plans("refilled")


def fill(store: Store, count: int) -> None:
    """Jobs of every kind, most of them ready."""

    def made(n: int) -> NewJob:
        options: dict[str, Any] = {"queue_name": f"queue {n % 7}", "priority": n % 5, "lane": Lane(n % 3)}
        if n % 10 == 0:
            return limited(f"key {n // 10 % 200}", 2, **options)
        if n % 10 == 2:
            return unique(f"unique {n}", expires_at=later(), **options)
        return job(**options, scheduled_at=later(seconds=n - 20_000) if n % 10 == 1 else None)

    store.enqueue(*map(made, range(count)))
    worker = store.worker()
    claims = store.claim(worker, count // 50)
    store.settle(*map(failed, claims[::2]))
    keys = [f"key {n:05}" for n in range(count // 100)]
    store.run(recurring.persist(store.sql, [recurs(key) for key in keys], lambda path: True))
    read = {entry.new.task_key: entry.updated_at for entry in store.run(recurring.read_entries(store.sql, keys))}
    now = later(days=-2)
    for minutes in range(10):
        at = now + timedelta(minutes=minutes)
        store.run(enqueue_ticks(store.sql, [Tick(key, at, read[key], new_job_id(), None) for key in keys]))


def recurs(key: str) -> NewEntry:
    return NewEntry(key, PATH, "* * * * *", None, "none", "[1,[],{}]", None, None, "")


def analyze(alias: str) -> None:
    tables = connections[alias].introspection.table_names()
    commands = {"postgresql": "VACUUM ANALYZE {}", "mysql": "ANALYZE TABLE {}", "sqlite": "ANALYZE {}"}
    for table in tables:
        query(alias, commands[connections[alias].vendor].format(table))


class Observer:
    """Runs operations as steps of one flow, and keeps their plans."""

    def __init__(self, explain: Explain) -> None:
        self.explain = explain
        self.plans: dict[str, list[Plan]] = {step: [] for step in STEPS}

    def step(self, name: str, operation: Operation[T]) -> Flow[T]:
        return explained(operation.flow(), self.explain, self.plans[name])


def steps_of(store: Store, explain: Explain) -> dict[str, list[Plan]]:
    """The plans of all operations of a worker, made in one transaction that is rolled back."""
    observer = Observer(explain)

    def flow() -> Flow[None]:
        yield from day(store.sql, observer)
        raise StoreDataError("roll it back")

    with pytest.raises(StoreDataError, match="roll it back"):
        store.run(Operation("day", flow))
    return observer.plans


def day(sql: Dialect, observer: Observer) -> Flow[None]:
    process = NewProcess(uuid4(), "worker", "worker", 1, "host")
    yield from register(sql, process).flow()
    plain = [job(queue_name="own", priority=90 - n) for n in range(6)]
    key = [limited("own", 2, queue_name="own", priority=40) for _ in range(6)]
    due, future = job(scheduled_at=later()), job(scheduled_at=later())
    yield from enqueue(sql, [*plain, *key, due, future]).flow()
    yield sql.statement(
        "UPDATE steady_queue_scheduledexecution SET scheduled_at = ? WHERE job_id = ?", later(days=-9), due.id
    )
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
    yield from recurring_day(sql, observer)
    assert (yield from step("heartbeat", heartbeat(sql, process.id)))
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


# -- the guards -------------------------------------------------------------------------------------------------------

each_state = pytest.mark.parametrize("state", STATES)
each_step = pytest.mark.parametrize("step", STEPS)


@each_state
@each_step
def test_each_step_looks_everything_up_and_sorts_nothing(
    plans_of_steps: PlansOfSteps, way: str, state: str, step: str
) -> None:
    plans = plans_of_steps[state, way][step]
    assert plans
    for plan in plans:
        # The few queues that people paused are read whole, once for a claim; where statistics know of a single process,
        # SQLite may read its table so as well.
        assert {access.table for access in plan.scans()} <= {"pause", "process"}, str(plan)
        # What a claim returns is put into order at the end, when it has been chosen.
        assert plan.sorted <= {"job"}, str(plan)


@each_state
@each_step
def test_each_step_uses_the_indexes_that_were_made_for_it(
    plans_of_steps: PlansOfSteps, way: str, state: str, step: str
) -> None:
    plans = plans_of_steps[state, way][step]
    used = {(access.table, access.index) for plan in plans for access in plan.accesses}
    assert used >= STEPS[step], "\n".join(map(str, plans))
