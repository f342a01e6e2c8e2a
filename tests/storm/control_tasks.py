"""What runs in the storm of retries, timeouts, cancellation, expiry, uniqueness and transactional tasks."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import steady_queue
from steady_queue import GiveUp, RetryLater, Snooze, TaskContext, Unique, actions, fixed, task
from steady_queue.concurrency import limits_concurrency
from tests.storm import attempt_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from steady_queue.jobs.definition.task import TaskCall

MAX_ATTEMPTS = 4
DELAY = fixed(0.2)
#: Seconds that a task may take: the first is less than it takes.
TIMEOUT_SECONDS, TIMED_OUT_SECONDS = 0.3, 5.0


@contextmanager
def logged_attempt(context: TaskContext, kind: str) -> Iterator[str]:
    """Write the begin and the end of this attempt to the attempt log."""
    entry: dict[str, Any] = {"job": str(context.task_result.id), "nonce": uuid4().hex, "kind": kind}
    attempt_log.write("begin", **entry)
    try:
        yield entry["nonce"]
    except asyncio.CancelledError:
        attempt_log.write("stopped", **entry)
        raise
    except Exception:
        attempt_log.write("failed", **entry)
        raise
    attempt_log.write("end", **entry)


@task(takes_context=True, max_attempts=MAX_ATTEMPTS, backoff=DELAY, retry_lost=True)
async def fails_at_first(context: TaskContext, failures: int, seconds: float) -> str:
    with logged_attempt(context, "retried") as nonce:
        await asyncio.sleep(seconds)
        if context.attempt <= failures:
            raise RuntimeError("not yet")
        return nonce


@task(takes_context=True, max_attempts=MAX_ATTEMPTS, backoff=DELAY, retry_lost=True)
def asks_for_a_retry(context: TaskContext, failures: int, seconds: float) -> str:
    with logged_attempt(context, "retried in a thread") as nonce:
        time.sleep(seconds)
        if context.attempt <= failures:
            raise RetryLater(after=0.1)
        return nonce


@limits_concurrency(key=lambda account: account, to=1)
@task(takes_context=True, max_attempts=MAX_ATTEMPTS, backoff=DELAY, retry_lost=True)
async def fails_once_alone(context: TaskContext, account: int) -> str:
    with logged_attempt(context, "limited") as nonce:
        await asyncio.sleep(0.05)
        if context.attempt == 1:
            raise RuntimeError("not yet")
        return nonce


@task(takes_context=True, max_attempts=MAX_ATTEMPTS, backoff=DELAY)
async def gives_up(context: TaskContext) -> None:
    with logged_attempt(context, "gives up"):
        raise GiveUp("it cannot succeed")


@task(takes_context=True, max_attempts=MAX_ATTEMPTS, backoff=DELAY, retry_lost=True)
async def snoozes(context: TaskContext) -> str:
    with logged_attempt(context, "snoozed") as nonce:
        if context.saved is None:
            await context.acheckpoint({"snoozed": True})
            raise Snooze(after=0.2)
        return nonce


@task(takes_context=True, max_attempts=2, backoff=DELAY, retry_lost=True, timeout=TIMEOUT_SECONDS)
async def takes_too_long(context: TaskContext) -> None:
    with logged_attempt(context, "timed out"):
        await asyncio.sleep(TIMED_OUT_SECONDS)


@task(takes_context=True, max_attempts=MAX_ATTEMPTS, backoff=DELAY, retry_lost=True)
async def waits_to_be_cancelled(context: TaskContext, seconds: float) -> str:
    with logged_attempt(context, "cancelled") as nonce:
        await asyncio.sleep(seconds)
        return nonce


@task(takes_context=True, max_attempts=MAX_ATTEMPTS, backoff=DELAY, retry_lost=True)
def looks_for_a_cancellation(context: TaskContext, seconds: float) -> str:
    with logged_attempt(context, "cancelled in a thread") as nonce:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            context.raise_if_cancelled()
            time.sleep(0.02)
        return nonce


@limits_concurrency(key="one", to=1)
@task(takes_context=True, max_attempts=MAX_ATTEMPTS, backoff=DELAY, retry_lost=True)
async def expires_behind_others(context: TaskContext) -> str:
    with logged_attempt(context, "expires") as nonce:
        await asyncio.sleep(0.1)
        return nonce


@task(
    takes_context=True,
    max_attempts=MAX_ATTEMPTS,
    backoff=DELAY,
    retry_lost=True,
    unique=Unique(key=lambda account: str(account), until="finished", on_conflict="return_existing"),
)
async def runs_alone_by_its_key(context: TaskContext, account: int) -> str:
    with logged_attempt(context, "unique") as nonce:
        await asyncio.sleep(0.1)
        return nonce


@task(
    takes_context=True,
    max_attempts=MAX_ATTEMPTS,
    backoff=DELAY,
    retry_lost=True,
    unique=Unique(key=lambda account: str(account), until="started", on_conflict="replace"),
)
async def is_debounced(context: TaskContext, account: int) -> str:
    with logged_attempt(context, "debounced") as nonce:
        await asyncio.sleep(0.05)
        return nonce


@task(takes_context=True, max_attempts=MAX_ATTEMPTS, backoff=DELAY, retry_lost=True, transactional=True)
def writes_once(context: TaskContext, number: int) -> str:
    from tests.shop.models import Contact

    with logged_attempt(context, "transactional") as nonce:
        Contact.objects.using(steady_queue.database).create(account_id=number)
        time.sleep(0.02)
        return nonce


#: The task of each number that `writes_once` was called with is checked by that number, so they do not repeat.
FIRST_NUMBER = 1_000_000


def control_call(random: Random) -> TaskCall:
    """A call of one of the tasks."""
    calls: dict[str, tuple[int, Any]] = {
        "fails": (14, lambda: fails_at_first.bind(random.randrange(6), random.uniform(0.0, 0.3))),
        "asks": (10, lambda: asks_for_a_retry.bind(random.randrange(6), random.uniform(0.0, 0.2))),
        "alone": (10, lambda: fails_once_alone.bind(random.randrange(3))),
        "gives up": (3, gives_up.bind),
        "snoozes": (6, snoozes.bind),
        "too long": (4, takes_too_long.bind),
        "cancelled": (10, lambda: waits_to_be_cancelled.bind(random.uniform(0.2, 4.0))),
        "cancelled thread": (7, lambda: looks_for_a_cancellation.bind(random.uniform(0.1, 0.7))),
        "expires": (8, lambda: _expiring(random.uniform(0.1, 1.0))),
        "unique": (8, lambda: runs_alone_by_its_key.bind(random.randrange(4))),
        "debounced": (8, lambda: _debounced(random)),
        "transactional": (15, lambda: writes_once.bind(FIRST_NUMBER + random.randrange(2**30 - FIRST_NUMBER))),
    }
    kind = random.choices(list(calls), [weight for weight, _ in calls.values()])[0]
    call: TaskCall = calls[kind][1]()
    return call


def _expiring(seconds: float) -> TaskCall:
    return expires_behind_others.using(expires_at=datetime.now(UTC) + timedelta(seconds=seconds)).bind()


def _debounced(random: Random) -> TaskCall:
    return is_debounced.using(run_after=timedelta(seconds=random.uniform(0.05, 0.5))).bind(random.randrange(3))


@dataclass(slots=True)
class Canceller:
    """Cancels some tasks of those that were enqueued, sooner or later, waiting or running."""

    random: Random
    by: str = "the storm"

    def __call__(self, ids: Sequence[str]) -> None:
        if self.random.random() < 0.3:
            chosen = self.random.sample(ids, min(len(ids), self.random.randint(1, 3)))
            actions.cancel_many(chosen, by=self.by, reason="for the test")
