"""Which queues a running worker claims from, in which order, and the statements for that."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest

from steady_queue import actions, enqueue_all
from steady_queue.aio import running
from steady_queue.aio.worker.queues import MAX_QUEUES, NAMES_MAX_SECONDS, NAMES_MIN_SECONDS, QueuePlan
from steady_queue.configuration import Worker
from steady_queue.db.aliases import open_async
from steady_queue.store.job import Lane
from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.processes.registration import NewProcess, register
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Released
from steady_queue.store.queue_selection import QueueSelection
from tests.support.databases.tables import counts
from tests.support.runtime import in_thread, until, wait_for_results, worker
from tests.support.store.jobs import job
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from steady_queue.aio.timing import Clock
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim
    from steady_queue.store.statement import Operation, T

pytestmark = pytest.mark.anyio

anywhere = recording.rests.using(backend="anything")


async def enqueue_in(*queues: str, priorities: Sequence[int] = ()) -> None:
    for number, queue in enumerate(queues):
        priority = priorities[number] if priorities else 0
        await anywhere.using(queue_name=queue, priority=priority).aenqueue(
            f"{queue} {priority}" if priorities else queue
        )


async def order_of(count: int, queues: Any, exclude_queues: Any = ()) -> list[Any]:
    """The order in which tasks begin, one at a time."""
    async with running(worker(queues=queues, exclude_queues=exclude_queues, coroutines=1)):
        await until(lambda: len(task_record.began) >= count and not task_record.running["async"])
    return task_record.began


# -- selectors --------------------------------------------------------------------------------------------------------

NAMES = ("reports", "mail_b", "mail_a", "other", "mail")


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        (["mail", "other"], ["mail", "other"]),
        (["mail*"], ["mail", "mail_a", "mail_b"]),
        (["other", "mail_*"], ["other", "mail_a", "mail_b"]),
        (["mail_b", "mail*"], ["mail_b", "mail", "mail_a"]),
        (["mail_*", "reports", "mail_a", "mail"], ["mail_a", "mail_b", "reports", "mail"]),
        ([" mail ", "\tmail_a"], ["mail", "mail_a"]),
        (["nowhere", "nothing*", "other"], ["other"]),
        (["*_a", "m*l", "other"], ["other"]),
        ("mail", ["mail"]),
        ("mail_*", ["mail_a", "mail_b"]),
        (["mail", "*"], list(NAMES)),
        (["nothing*", "*", "other"], list(NAMES)),
        (None, list(NAMES)),
        ("*", list(NAMES)),
    ],
    ids=str,
)
async def test_patterns_choose_queues_and_their_order(database: str, queues: Any, expected: list[str]) -> None:
    await enqueue_in(*NAMES)
    assert await order_of(len(expected), queues) == expected
    left = len(NAMES) - len(expected)
    assert await in_thread(counts, database) == ({"ready": left} if left else {})


@pytest.mark.parametrize(
    ("queues", "excluded", "expected"),
    [
        ("*", "mail", ["mail_a", "mail_b", "other", "reports"]),
        ("*", ["mail*"], ["other", "reports"]),
        (None, ["mail_*", " other "], ["mail", "reports"]),
        (["other", "mail*"], ["mail_b"], ["other", "mail", "mail_a"]),
        (["mail", "other"], ["mail*"], ["other"]),
        (["mail_*", "*"], ["reports", "m*l", "nothing*"], ["mail", "mail_a", "mail_b", "other"]),
    ],
    ids=str,
)
async def test_excluded_queues_are_not_served(database: str, queues: Any, excluded: Any, expected: list[str]) -> None:
    await enqueue_in(*NAMES)
    assert await order_of(len(expected), queues, excluded) == expected
    assert await in_thread(counts, database) == {"ready": len(NAMES) - len(expected)}


async def test_a_pause_and_an_exclusion_hold_at_the_same_time_and_new_queues_are_found(database: str) -> None:
    await actions.apause("paused")
    await enqueue_in("paused", "slow", "first")
    async with running(worker(exclude_queues=["slow"])):
        await until(lambda: task_record.began == ["first"])
        await enqueue_in("second", "slow")
        await until(lambda: task_record.began == ["first", "second"])
        await actions.aresume("paused")
        await until(lambda: len(task_record.began) == 3 and not task_record.running["async"])
    assert task_record.began == ["first", "second", "paused"]
    assert await in_thread(counts, database) == {"ready": 2}


STRANGE = ("x%' OR 1=1--", "_", "\\", "🐎")


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("star", ["", "*"])
async def test_any_name_and_any_prefix_means_itself_alone(database: str, name: str, star: str) -> None:
    await enqueue_in("a", "🐢", "x", *STRANGE, *(f"{other} more" for other in STRANGE), "ab")
    expected = [name, f"{name} more"] if star else [name]
    assert await order_of(len(expected), [f"{name}{star}"]) == expected
    assert (await in_thread(counts, database))["ready"] == 12 - len(expected)


def test_no_queues_at_all_are_refused() -> None:
    (problem,) = Worker(queues=[]).problems()
    assert problem == "queues must be a list of queue names, not []"


# -- pauses -----------------------------------------------------------------------------------------------------------


async def test_while_something_is_paused_a_star_takes_queues_in_turn_and_each_by_priority(
    database: str,
) -> None:
    await actions.apause("resting")
    await enqueue_in("a", "a", "a", "b", "c", "c", "resting", priorities=[0, 9, 5, -9, 1, 2, 99])
    began = await order_of(6, ["*"])
    assert began == ["a 9", "b -9", "c 2", "a 5", "c 1", "a 0"]
    assert await in_thread(counts, database) == {"ready": 1}


async def test_without_a_pause_a_star_goes_by_priority_again(database: str) -> None:
    await actions.apause("resting")
    async with running(worker(coroutines=1)):
        await wait_for_results(await anywhere.using(queue_name="other").aenqueue("other"))
        await actions.aresume("resting")
        blocker = await recording.awaits.aenqueue("blocker")
        await until(lambda: "blocker" in task_record.began)
        waited = time.monotonic() + 2 * NAMES_MIN_SECONDS
        await enqueue_in("a", "a", "b", "b", priorities=[1, 4, 2, 3])
        await until(lambda: time.monotonic() > waited)
        task_record.gate.set()
        await wait_for_results(blocker)
        await until(lambda: len(task_record.began) == 6 and not task_record.running["async"])
    assert task_record.began[2:] == ["a 4", "b 3", "b 2", "a 1"]


@pytest.mark.parametrize("queues", [["*"], ["mail"], ["ma*"]], ids=str)
async def test_a_pause_made_while_a_worker_runs_holds_and_ends(database: str, queues: list[str]) -> None:
    async with running(worker(queues=queues)):
        await wait_for_results(await anywhere.using(queue_name="mail").aenqueue("before"))
        await actions.apause("mail")
        waits = await anywhere.using(queue_name="mail").aenqueue("paused")
        if queues == ["*"]:
            await wait_for_results(await anywhere.using(queue_name="other").aenqueue("other"))
        assert await in_thread(counts, database) == {"ready": 1}
        assert "paused" not in task_record.began
        await actions.aresume("mail")
        await wait_for_results(waits)


async def test_all_jobs_of_very_many_queues_are_run_while_something_is_paused(database: str) -> None:
    await actions.apause("resting")
    await enqueue_in("resting")
    names = [f"queue {n}" for n in range(5 * MAX_QUEUES)]
    await in_thread(lambda: enqueue_all(anywhere.using(queue_name=name).bind(name) for name in names))
    async with running(worker()):
        await until(lambda: len(task_record.began) == len(names) and not task_record.running["async"])
    assert sorted(task_record.began) == sorted(names)
    assert await in_thread(counts, database) == {"ready": 1}


# -- statements -------------------------------------------------------------------------------------------------------


class Recorder:
    """A driver that records its statements."""

    def __init__(self, driver: AsyncDriver) -> None:
        self.sql = driver.sql
        self.asked: list[str] = []
        self._driver = driver

    async def run(self, operation: Operation[T]) -> T:
        self.asked.append(operation.name)
        return await self._driver.run(operation)


class ManualClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Poller:
    """A turn of a worker that runs nothing: the claimed jobs are ready again afterwards."""

    def __init__(self, driver: AsyncDriver, patterns: Sequence[str]) -> None:
        self.recorder, self.clock = Recorder(driver), ManualClock()
        self.plan = QueuePlan(
            QueueSelection.of(patterns), driver=cast("AsyncDriver", self.recorder), clock=cast("Clock", self.clock)
        )
        self.process = NewProcess(id=job().id, kind="worker", name="poller", pid=1, hostname="here")
        self._driver = driver

    async def turn(self, room: int = 1, *, keep: bool = False) -> list[Claim]:
        queues = await self.plan.queues([Lane.ASYNC])
        sql = self.recorder.sql
        if queues is None:
            taken = await self.recorder.run(claim_from_all(sql, ClaimRequest(self.process.id, Lane.ASYNC, room)))
            claims = taken.claims
            if taken.is_paused:
                self.plan.require_names()
        else:
            names = queues[Lane.ASYNC]
            assert len(names) <= MAX_QUEUES
            wanted = [ClaimRequest(self.process.id, Lane.ASYNC, room, names)] if names else []
            claims = await self.recorder.run(claim(sql, *wanted)) if wanted else []
            self.plan.record(queues, claims, {Lane.ASYNC: room})
        if not keep:
            await self._driver.run(settle(sql, [Released(claim) for claim in claims], process_name="poller"))
        return list(claims)

    def asked(self) -> list[str]:
        asked, self.recorder.asked = self.recorder.asked, []
        return list(asked)


@asynccontextmanager
async def poller(database: str, *patterns: str, queues: Sequence[str] = ()) -> AsyncIterator[Poller]:
    driver = open_async(database)
    try:
        made = Poller(driver, patterns)
        await driver.run(register(driver.sql, made.process))
        await driver.run(enqueue(driver.sql, [job(queue_name=name) for name in queues]))
        yield made
    finally:
        await driver.close()


async def test_a_star_reads_no_names_while_nothing_is_paused(database: str) -> None:
    async with poller(database, "*", queues=["a", "b"]) as polls:
        for _ in range(3):
            assert len(await polls.turn(2)) == 2
        assert polls.asked() == ["claim"] * 3


async def test_names_are_read_once_a_second_and_not_with_each_claim(database: str) -> None:
    await actions.apause("resting")
    async with poller(database, "*", queues=["a", "b", "c", "resting"]) as polls:
        assert await polls.turn() == []
        taken = [await polls.turn() for _ in range(6)]
        assert [claim.queue_name for claims in taken for claim in claims] == ["a", "b", "c", "a", "b", "c"]
        assert polls.asked() == ["claim", "find waiting queues", *["claim"] * 6]
        polls.clock.now += NAMES_MIN_SECONDS
        await polls.turn()
        assert polls.asked() == ["find waiting queues", "claim"]


async def test_names_that_take_long_to_read_are_read_again_within_seconds(database: str) -> None:
    await actions.apause("resting")
    async with poller(database, "*", queues=["a"]) as polls:
        await polls.turn()
        ask = polls.recorder.run

        async def slowly(operation: Operation[Any]) -> Any:
            polls.clock.now += 60 if operation.name == "find waiting queues" else 0
            return await ask(operation)

        polls.recorder.run = slowly  # type: ignore[method-assign]
        await polls.turn()
        polls.recorder.run = ask  # type: ignore[method-assign]
        polls.asked()
        await polls.turn()
        polls.clock.now += NAMES_MAX_SECONDS
        await polls.turn()
        assert polls.asked() == ["claim", "find waiting queues", "claim"]


async def test_the_next_claim_observes_a_pause_although_the_names_are_cached(database: str) -> None:
    await actions.apause("resting")
    async with poller(database, "*", queues=["a", "b"]) as polls:
        await polls.turn()
        assert len(await polls.turn(9)) == 2
        await actions.apause("a")
        polls.asked()
        assert [claim.queue_name for claim in await polls.turn(9)] == ["b"]
        assert polls.asked() == ["claim"]


@pytest.mark.parametrize("patterns", [["*"], ["a*"]], ids=str)
async def test_an_idle_poll_is_one_statement_while_something_is_paused(database: str, patterns: list[str]) -> None:
    await actions.apause("a")
    async with poller(database, *patterns, queues=["a"]) as polls:
        await polls.turn()
        await polls.turn()
        polls.asked()
        for _ in range(5):
            await polls.turn()
            polls.clock.now += NAMES_MIN_SECONDS
        assert polls.asked() == ["find waiting queues"] * 5


async def test_a_queue_that_was_not_known_is_found_after_one_miss(database: str) -> None:
    await actions.apause("resting")
    async with poller(database, "*", queues=["a"]) as polls:
        await polls.turn()
        assert len(await polls.turn(9, keep=True)) == 1
        await enqueue_in("new")
        assert await polls.turn(9) == []
        assert [claim.queue_name for claim in await polls.turn(9)] == ["new"]


async def test_with_very_many_names_each_claim_queries_few_queues_and_all_are_served(database: str) -> None:
    await actions.apause("resting")
    names = [f"queue {n:04d}" for n in range(10 * MAX_QUEUES)]
    async with poller(database, "*", queues=names) as polls:
        await polls.turn()
        served = [claim.queue_name for _ in range(len(names)) for claim in await polls.turn(1)]
        assert served == names
        assert polls.asked() == ["claim", "find waiting queues", *["claim"] * len(names)]
