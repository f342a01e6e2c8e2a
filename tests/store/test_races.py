"""Races: several connections change the same rows. No needless waits, no double claims, no leftover rows."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest
from django.db import connections, transaction

from steady_queue.errors import StoreUnavailable
from steady_queue.store.operations.enqueue import admit
from steady_queue.store.operations.promote import lock_id
from steady_queue.store.outcome import Finished, Released, Verdict
from tests.support.databases.open_transactions import SHORT_LOCK_TIMEOUTS, run_with_short_lock_timeout
from tests.support.databases.tables import count, counts, query
from tests.support.store.jobs import failed, job, limited
from tests.support.store.stores import SyncStore
from tests.support.threads import WAIT_TIMEOUT_SECONDS, closing, together

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.store.job import Claim, NewJob
    from tests.support.store.stores import Store


# -- an open transaction blocks no other ------------------------------------------------------------------------------


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("queues", [None, ["default"]])
@pytest.mark.parametrize("size", [4, 40])
def test_an_open_claim_blocks_no_other_claim(database: str, size: int, queues: list[str] | None) -> None:
    store = SyncStore(database)
    store.enqueue(*[job() for _ in range(size)])
    worker, other = store.worker(), store.worker()

    def claim_the_others() -> None:
        assert len(store.claim(other, size, queues=queues)) == size // 2

    with transaction.atomic(using=database):
        assert len(store.claim(worker, size // 2, queues=queues)) == size // 2
        run_with_short_lock_timeout(database, claim_the_others)
    assert counts(database) == {"claimed": size}


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("size", [4, 40])
@pytest.mark.parametrize("end", [Finished, failed])
def test_an_open_settle_blocks_no_other_settle(database: str, size: int, end: Callable[[Claim], Finished]) -> None:
    store = SyncStore(database)
    claims = store.claimed(*[job() for _ in range(size)])
    mine, others = claims[: size // 2], claims[size // 2 :]

    def settle_the_others() -> None:
        assert set(store.settle(*map(end, others)).verdicts.values()) == {Verdict.APPLIED}

    with transaction.atomic(using=database):
        store.settle(*map(end, mine))
        run_with_short_lock_timeout(database, settle_the_others)
    assert counts(database) == ({} if end is Finished else {"failed": size})


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("preserve", [True, False])
def test_an_open_limited_settle_blocks_no_settle_of_another_key(database: str, preserve: bool) -> None:
    assert lock_id("a") != lock_id("b")
    store = SyncStore(database)
    one, two = store.claimed(limited("a"), limited("b"))
    waiting = [limited("a"), limited("b")]
    store.enqueue(*waiting)

    def settle_the_other() -> None:
        assert store.settle(Finished(two), preserve=preserve).promoted == 1

    with transaction.atomic(using=database):
        assert store.settle(Finished(one), preserve=preserve).promoted == 1
        run_with_short_lock_timeout(database, settle_the_other)
    assert store.status(*waiting) == ["ready", "ready"]


@pytest.mark.only_on("postgres", "mariadb")
def test_an_open_promotion_blocks_neither_a_claim_nor_a_release_of_the_same_key(database: str) -> None:
    store = SyncStore(database)
    (claim,) = store.claimed(limited(to=3))
    ready = limited(to=3)
    store.enqueue(ready)
    store.enqueue(limited(to=3), promoting=False)
    worker = store.worker()

    def claim_and_release() -> None:
        assert [claim.job_id for claim in store.claim(worker, 9)] == [ready.id]
        assert store.settle(Released(claim)).verdicts == {claim.claim_id: Verdict.APPLIED}

    with transaction.atomic(using=database):
        assert len(store.promote({"key": 3})) == 1
        run_with_short_lock_timeout(database, claim_and_release)
    assert counts(database) == {"claimed": 1, "ready": 2}


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("size", [4, 40])
def test_an_open_discard_blocks_no_claim(database: str, size: int) -> None:
    store = SyncStore(database)
    jobs = [job() for _ in range(size)]
    store.enqueue(*jobs)
    worker = store.worker()

    def claim_the_others() -> None:
        assert [claim.job_id for claim in store.claim(worker, size)] == [new.id for new in jobs[size // 2 :]]

    with transaction.atomic(using=database):
        store.discard(*jobs[: size // 2])
        run_with_short_lock_timeout(database, claim_the_others)


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("size", [4, 40])
def test_an_open_retry_blocks_no_other_retry_or_discard(database: str, size: int) -> None:
    store = SyncStore(database)
    jobs = [job() for _ in range(size)]
    store.settle(*map(failed, store.claimed(*jobs)))
    half, quarter = size // 2, size // 4

    def revise_the_others() -> None:
        assert len(store.retry(*jobs[half : half + quarter])) == quarter
        assert len(store.discard(*jobs[half + quarter :])) == quarter

    with transaction.atomic(using=database):
        assert len(store.retry(*jobs[:half])) == half
        run_with_short_lock_timeout(database, revise_the_others)
    assert counts(database) == {"ready": half + quarter}


# -- two users enqueue the same key -----------------------------------------------------------------------------------


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("to", [1, 2])
def test_two_open_transactions_enqueue_the_same_key_and_neither_waits(database: str, to: int) -> None:
    store = SyncStore(database)
    jobs = [limited(to=to), limited(to=to)]
    both_have_enqueued = threading.Barrier(2)

    def user(new: NewJob) -> None:
        query(database, SHORT_LOCK_TIMEOUTS[connections[database].vendor])
        with transaction.atomic(using=database):
            blocked = store.enqueue(new, promoting=False).blocked
            both_have_enqueued.wait(WAIT_TIMEOUT_SECONDS)
        store.run(admit(store.sql, blocked))

    together(*[partial(user, new) for new in jobs])
    assert counts(database) == ({"ready": 1, "blocked": 1} if to == 1 else {"ready": 2})
    assert run_all(store) == {new.id for new in jobs}


def run_all(store: Store) -> set[UUID]:
    """Claim and finish until nothing is ready; the ids of the jobs that ran."""
    worker = store.worker()
    ran: set[UUID] = set()
    while claims := store.claim(worker, 10):
        ran |= {claim.job_id for claim in claims}
        store.settle(*map(Finished, claims))
    return ran


@pytest.mark.only_on("sqlite")
def test_on_sqlite_the_second_transaction_waits_for_the_first_and_succeeds(database: str) -> None:
    store = SyncStore(database)
    first, second = limited(), limited()
    begins = threading.Event()

    def other() -> None:
        connections[database].ensure_connection()
        # SQLite reports when it starts a statement: from then on it waits for the writer.
        connections[database].connection.set_trace_callback(
            lambda text: begins.set() if text.startswith("BEGIN") else None
        )
        with transaction.atomic(using=database):
            store.enqueue(second, promoting=False)

    with transaction.atomic(using=database):
        store.enqueue(first, promoting=False)
        thread = ThreadPoolExecutor(1)
        waiting = thread.submit(closing, other)
        assert begins.wait(WAIT_TIMEOUT_SECONDS)
        assert not waiting.done()
    waiting.result(WAIT_TIMEOUT_SECONDS)
    thread.shutdown()
    store.promote({"key": 1})
    assert run_all(store) == {first.id, second.id}


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("joins", [True, False])
def test_on_sqlite_the_second_gives_up_after_the_busy_timeout_and_stores_nothing(database: str, joins: bool) -> None:
    store = SyncStore(database)

    def other() -> None:
        query(database, "PRAGMA busy_timeout = 1")
        if joins:
            query(database, "BEGIN")  # as Django does without transaction_mode
            connections[database].in_atomic_block = True
        with pytest.raises(StoreUnavailable) as caught:
            store.enqueue(limited(), promoting=not joins)
        assert (caught.value.applied, caught.value.code) == ("no", "5")
        connections[database].in_atomic_block = False

    with transaction.atomic(using=database):
        store.enqueue(limited(), promoting=False)
        together(other)
    assert count(database, "job") == 1


# -- settle against prune ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [job, limited])
def test_of_a_settle_and_a_prune_of_the_same_claim_exactly_one_wins(store: Store, make: Callable[[], NewJob]) -> None:
    worker = store.worker()
    for _ in range(12):
        new, waiting = make(), make()
        store.enqueue(new)
        (claim,) = store.claim(worker)
        store.enqueue(waiting)
        mine, others = together(
            partial(store.settle, Finished(claim, "1")),
            partial(store.settle, failed(claim), process_name="pruned", by_owner=False),
        )
        won = (mine.verdicts[claim.claim_id] is Verdict.APPLIED, others.verdicts[claim.claim_id] is Verdict.APPLIED)
        assert won in ((True, False), (False, True))
        (record,) = store.find(new)
        assert record.status.value == ("finished" if won[0] else "failed")
        assert (record.attempts, record.worker_ids) == (1, "worker" if won[0] else "pruned")
        if won[1]:
            assert mine.verdicts[claim.claim_id] is Verdict.FENCED
        assert store.status(waiting) == ["ready"]
        store.discard(new, waiting)


# -- one limited key under load ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", [1, 3])
def test_a_limit_holds_and_nothing_is_stranded_while_many_work_at_one_key(store: Store, to: int) -> None:
    threads, jobs_each = 4, 12
    running = Gauge()

    def work(seed: int) -> set[UUID]:
        chance = random.Random(seed)
        worker = store.worker()
        ran: set[UUID] = set()
        for _ in range(jobs_each):
            store.enqueue(limited(to=to, priority=chance.randrange(3)))
            claims = store.claim(worker, chance.randrange(1, 3))
            running.change(len(claims))
            assert store.ask("SELECT count(*) FROM steady_queue_claimedexecution", returns=".")[0][0] <= to
            for claim in claims:
                running.change(-1)
                end = Finished(claim) if chance.random() < 0.7 else failed(claim)
                assert store.settle(end).verdicts == {claim.claim_id: Verdict.APPLIED}
                ran.add(claim.job_id)
        return ran

    ran = together(*[partial(work, seed) for seed in range(threads)])
    assert 0 < running.most <= to
    left = counts(store.alias)
    if left.get("blocked"):
        assert count(store.alias, "semaphore") == left["ready"] == to
    rest = run_all(store)
    assert sum(map(len, ran)) + len(rest) == len(set().union(*ran, rest)) == threads * jobs_each
    assert counts(store.alias).keys() <= {"failed"}


class Gauge:
    """How many there are, and the most there have been."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def change(self, by: int) -> None:
        with self._lock:
            self._now += by
            self.most = max(self.most, self._now)
