"""Through PgBouncer in transaction mode: every transaction may get another server connection than the one before."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from steady_queue.store.operations.processes.registration import heartbeat
from steady_queue.store.outcome import Finished, Released, Verdict
from steady_queue.store.sql.postgres import IDLE_TRANSACTION_TIMEOUT, SETTINGS
from steady_queue.store.statement import Operation
from tests.conftest import chosen
from tests.support.databases.aliases import extra_database, twin_settings
from tests.support.databases.tables import count, counts, query
from tests.support.servers import PgBouncer
from tests.support.servers.postgres import Postgres
from tests.support.store.jobs import discarding, failed, job, later, limited
from tests.support.store.stores import async_store
from tests.support.threads import together

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from anyio.from_thread import BlockingPortal

    from steady_queue.store.statement import Flow
    from tests.support.servers import MariaDB
    from tests.support.store.stores import Store

#: The setup of the module is expensive: its tests stay in one process.
pytestmark = [pytest.mark.only_on("postgres"), pytest.mark.xdist_group("pgbouncer")]


@pytest.fixture(scope="module")
def bouncer(request: pytest.FixtureRequest, servers: dict[str, Postgres | MariaDB]) -> Iterator[PgBouncer | None]:
    if "postgres" not in chosen(request.config):
        yield None
        return
    server = servers["postgres"]
    assert isinstance(server, Postgres)
    with PgBouncer(server) as bouncer:
        yield bouncer


@pytest.fixture
def pooled(database: str, bouncer: PgBouncer, portal: BlockingPortal) -> Iterator[Store]:
    """The store over several connections to the pooler, set up as Django's own setting for poolers says."""
    settings = twin_settings(database, PORT=str(bouncer.port), DISABLE_SERVER_SIDE_CURSORS=True)
    with (
        extra_database(f"postgres-pooled-{uuid4().hex}", settings) as alias,
        async_store(alias, portal, size=6) as store,
    ):
        yield store


def test_every_operation_works_again_and_again(pooled: Store) -> None:
    worker = pooled.worker()
    for _ in range(30):
        plain, scheduled, one, two = job(), job(scheduled_at=later()), limited(), limited()
        pooled.enqueue(plain)
        pooled.enqueue(scheduled, one)
        pooled.enqueue(two)
        assert pooled.enqueue(discarding()).discarded
        assert pooled.status(plain, scheduled, one, two) == ["ready", "scheduled", "ready", "blocked"]
        first, second = pooled.claim(worker, 10, queues=["nowhere", "default"])
        settled = pooled.settle(Finished(first, "1"), failed(second))
        assert (set(settled.verdicts.values()), settled.promoted) == ({Verdict.APPLIED}, 1)
        assert pooled.retry(one) == [one.id]
        (third,) = pooled.claim(worker, 10)
        pooled.settle(Released(third))
        assert pooled.run(heartbeat(pooled.sql, worker)).is_known
        pooled.discard(scheduled, one, two)
    assert counts(pooled.alias) == {}
    assert count(pooled.alias, "semaphore") == 0


def test_several_connections_work_side_by_side(pooled: Store) -> None:
    threads, rounds = 6, 25

    def work(seed: int) -> set[UUID]:
        chance = random.Random(seed)
        worker = pooled.worker()
        ran: set[UUID] = set()
        for _ in range(rounds):
            key = f"key {chance.randrange(3)}"
            pooled.enqueue(job(), limited(key, 2)) if chance.random() < 0.5 else pooled.enqueue(job())
            for claim in pooled.claim(worker, 3):
                assert pooled.settle(Finished(claim)).verdicts == {claim.claim_id: Verdict.APPLIED}
                ran.add(claim.job_id)
        return ran

    ran = together(*[partial(work, seed) for seed in range(threads)])
    worker = pooled.worker()
    while claims := pooled.claim(worker, 100):
        pooled.settle(*map(Finished, claims))
        ran.append({claim.job_id for claim in claims})
    assert sum(map(len, ran)) == len(set().union(*ran)) == count(pooled.alias, "job")
    assert counts(pooled.alias) == {}


def test_transactions_really_move_between_server_connections(pooled: Store) -> None:
    def backends() -> set[int]:
        return {pooled.ask("SELECT pg_backend_pid()", returns=".")[0][0] for _ in range(50)}

    seen = together(*[backends] * 6)
    assert any(one & other for one in seen for other in seen if one is not other)
    assert len(set().union(*seen)) > 1


def test_no_setting_of_ours_remains_on_a_server_connection(pooled: Store) -> None:
    pooled.enqueue(limited(), limited())  # promotion sets a timeout for its own transaction
    text = "SELECT name, setting FROM pg_settings WHERE name = ANY(?) AND source = 'session'"
    for _ in range(20):
        assert pooled.ask(text, list(SETTINGS), returns="..") == []
    assert query(pooled.alias, "SELECT count(*) FROM pg_prepared_statements") == [(0,)]


def test_the_server_ends_transactions_of_a_frozen_process_here_too(pooled: Store) -> None:
    def limit() -> Flow[str]:
        ((value,),) = yield pooled.sql.statement(
            "SELECT current_setting('idle_in_transaction_session_timeout')", returns="."
        )
        return str(value)

    assert pooled.run(Operation("limit", limit)) == IDLE_TRANSACTION_TIMEOUT
    assert pooled.run(Operation("limit", limit, transaction=False)) == "0"
