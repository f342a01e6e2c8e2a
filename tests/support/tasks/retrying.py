"""Tasks that fail, once or more often, and are retried."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from steady_queue import GiveUp, Interrupted, RetryLater, Snooze, exponential, fixed, steps, task
from steady_queue.concurrency import limits_concurrency

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult
    from steady_queue.jobs.running.context import TaskContext

#: What the backoffs were called with.
seen: list[tuple[BaseException, TaskResult[Any]]] = []
#: The attempt in which each function was called.
attempts: list[int] = []


def record(exception: BaseException, task_result: TaskResult[Any]) -> float:
    seen.append((exception, task_result))
    return 0


def fail(exception: BaseException, task_result: TaskResult[Any]) -> float:
    raise LookupError("the backoff is wrong")


def nonsense(exception: BaseException, task_result: TaskResult[Any]) -> Any:
    return "soon"


def never(exception: BaseException, task_result: TaskResult[Any]) -> None:
    return None


def minutes(exception: BaseException, task_result: TaskResult[Any]) -> timedelta:
    return timedelta(minutes=task_result.attempts)


def _run(context: TaskContext, succeeds_in: int, error: str = "") -> int:
    attempts.append(context.attempt)
    if context.attempt >= succeeds_in:
        return context.attempt
    raise {"": ValueError, "key": KeyError, "exit": SystemExit}[error](f"attempt {context.attempt}")


@task(takes_context=True, max_attempts=3, backoff=record)
async def flaky(context: TaskContext, succeeds_in: int, error: str = "") -> int:
    return _run(context, succeeds_in, error)


@task(takes_context=True, max_attempts=3, backoff=record)
def flaky_in_thread(context: TaskContext, succeeds_in: int, error: str = "") -> int:
    return _run(context, succeeds_in, error)


@task(takes_context=True, max_attempts=math.inf, backoff=fixed(0))
def endless(context: TaskContext, succeeds_in: int) -> int:
    return _run(context, succeeds_in)


@task(takes_context=True, max_attempts=4, backoff=steps(60, 300, 1800))
def stepped(context: TaskContext, succeeds_in: int) -> int:
    return _run(context, succeeds_in)


@task(takes_context=True, max_attempts=3, backoff=fixed(0), retry_on=LookupError)
def retries_lookup_errors(context: TaskContext, succeeds_in: int, error: str = "") -> int:
    return _run(context, succeeds_in, error)


@task(takes_context=True, max_attempts=3, backoff=fixed(0), give_up_on=(KeyError,))
def gives_up_on_key_errors(context: TaskContext, succeeds_in: int, error: str = "") -> int:
    return _run(context, succeeds_in, error)


@task(max_attempts=3, backoff=fail)
def with_failing_backoff() -> None:
    raise ValueError("the task is wrong")


@task(max_attempts=3, backoff=nonsense)
async def with_nonsense_backoff() -> None:
    raise ValueError("the task is wrong")


@task(max_attempts=3, backoff=never)
def never_again() -> None:
    raise ValueError("the task is wrong")


@task(max_attempts=3, backoff=minutes)
def waits_minutes() -> None:
    raise ValueError("the task is wrong")


#: Celery: autoretry_for=(Exception,), dont_autoretry_for=(KeyError,), max_retries=3, retry_backoff=2,
#: retry_backoff_max=600, retry_jitter=True.
@task(
    takes_context=True,
    max_attempts=4,
    backoff=exponential(first=2, longest=600, jitter=1),
    retry_on=(Exception,),
    give_up_on=(KeyError,),
)
def as_with_celery(context: TaskContext, succeeds_in: int, error: str = "") -> int:
    return _run(context, succeeds_in, error)


def _ask(context: TaskContext, how: str) -> str:
    attempts.append(context.attempt)
    if len(attempts) > 1:
        return "done"
    match how:
        case "later":
            raise RetryLater("busy", after=0)
        case "by backoff":
            raise RetryLater("busy") from ValueError("the cause")
        case "snooze":
            raise Snooze("too early", after=0)
        case "until":
            raise Snooze(until=datetime.now(UTC) - timedelta(hours=1))
        case "give up":
            raise GiveUp("it makes no sense")
        case "interrupted":
            raise Interrupted
    raise AssertionError(how)


@task(takes_context=True, max_attempts=2, backoff=fixed(0))
async def asks(context: TaskContext, how: str) -> str:
    return _ask(context, how)


@task(takes_context=True, max_attempts=2, backoff=fixed(0))
def asks_in_thread(context: TaskContext, how: str) -> str:
    return _ask(context, how)


@task
async def asks_without_attempts() -> None:
    raise RetryLater(after=5)


@limits_concurrency(key="retried", to=1)
@task(max_attempts=3, backoff=fixed(3600))
def limited(succeeds: bool = False) -> bool:
    if not succeeds:
        raise ValueError("it failed")
    return succeeds


@task(max_attempts=3, backoff=fixed(0), retry_lost=True)
def retries_lost() -> str:
    return "done"
