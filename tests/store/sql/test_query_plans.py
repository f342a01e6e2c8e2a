"""EXPLAIN guards: every statement of the hot paths is a lookup in an index, after any history of the tables.

The plans are made once for each database, in a database of its own: fresh from the migration, filled with 50,000 jobs
and analyzed, emptied and analyzed, and refilled without new statistics.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import connections

from steady_queue.errors import StoreDataError
from steady_queue.store.job import CancelRequest, Lane
from steady_queue.store.operations.actions.cancellation import cancel
from steady_queue.store.operations.recurring import entries as recurring
from steady_queue.store.operations.recurring.ticks import Tick, enqueue_ticks
from steady_queue.store.statement import Operation
from tests.conftest import chosen
from tests.store.sql.plan_steps import STEPS, Observer, day, recurs
from tests.support.databases import query_plans as planning
from tests.support.databases.aliases import extra_database, twin_settings
from tests.support.databases.tables import empty_tables, query
from tests.support.store.jobs import failed, job, later, limited, new_job_id, unique
from tests.support.store.stores import async_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anyio.from_thread import BlockingPortal

    from steady_queue.store.job import NewJob
    from steady_queue.store.statement import Flow, Statement
    from tests.support.databases.query_plans import Plan
    from tests.support.servers import MariaDB, Postgres
    from tests.support.store.stores import Store

    Explain = Callable[[Statement], Flow[Plan]]
    #: The plans of each step, by the state of the tables and the way of planning.
    PlansOfSteps = dict[tuple[str, str], dict[str, list[Plan]]]

#: Small tables.
READ_WHOLE = {"pause", "process", "cancellation", "processrequest"}
STATES = ("fresh", "full", "emptied", "refilled")
WAYS: dict[str, dict[str, Explain]] = {
    "postgres": {"custom": planning.explain_postgres, "generic": planning.explain_postgres_generic},
    "mariadb": {"custom": planning.explain_mariadb},
    "sqlite": {"custom": planning.explain_sqlite},
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
        keep_statistics(alias)
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
    store.run(cancel(store.sql, [claim.job_id for claim in claims[1::20]], CancelRequest()))
    keys = [f"key {n:05}" for n in range(count // 100)]
    store.run(recurring.persist(store.sql, [recurs(key) for key in keys], lambda path: True))
    read = {entry.new.task_key: entry.updated_at for entry in store.run(recurring.read_entries(store.sql, keys))}
    now = later(days=-2)
    for minutes in range(10):
        at = now + timedelta(minutes=minutes)
        store.run(enqueue_ticks(store.sql, [Tick(key, at, read[key], new_job_id(), None) for key in keys]))


def keep_statistics(alias: str) -> None:
    """Let only `analyze()` change the statistics: a server that does it at a moment of its own changes the plans."""
    commands = {
        "postgresql": "ALTER TABLE {} SET (autovacuum_enabled = off)",
        "mysql": "ALTER TABLE {} STATS_PERSISTENT = 1, STATS_AUTO_RECALC = 0",
    }
    if command := commands.get(connections[alias].vendor):
        on_each_table(alias, command)


def analyze(alias: str) -> None:
    commands = {"postgresql": "VACUUM ANALYZE {}", "mysql": "ANALYZE TABLE {}", "sqlite": "ANALYZE {}"}
    on_each_table(alias, commands[connections[alias].vendor])


def on_each_table(alias: str, command: str) -> None:
    for table in connections[alias].introspection.table_names():
        query(alias, command.format(table))


def steps_of(store: Store, explain: Explain) -> dict[str, list[Plan]]:
    """The plans of all operations of a worker, made in one transaction that is rolled back."""
    observer = Observer(explain)

    def flow() -> Flow[None]:
        yield from day(store.sql, observer)
        raise StoreDataError("roll it back")

    with pytest.raises(StoreDataError, match="roll it back"):
        store.run(Operation("day", flow))
    return observer.plans


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
        # The few queues that people paused are read whole, once for a claim, and so are requests to cancel jobs and to
        # processes; where statistics know of a single process, SQLite may read its table so as well.
        assert {access.table for access in plan.scans()} <= READ_WHOLE, str(plan)
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
