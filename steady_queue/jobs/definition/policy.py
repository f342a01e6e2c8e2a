"""The policy of a task: how often, how long and under which conditions it runs.

Each value is an option of the task, or else of `TASKS[...]["OPTIONS"]`, or else the default here.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from inspect import isclass, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any

from steady_queue.errors import UniqueKeyError
from steady_queue.jobs.compat import task_backends
from steady_queue.jobs.definition import uniqueness
from steady_queue.jobs.definition.backoff import Backoff, exponential, fixed, steps
from steady_queue.jobs.definition.durations import read_limit, read_seconds
from steady_queue.store.names import LONGEST_TIMEDELTA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from steady_queue.jobs.compat import Task
    from steady_queue.store.job import Claim

LONGEST_SECONDS = LONGEST_TIMEDELTA.total_seconds()

ExceptionClasses = tuple[type[BaseException], ...]

DEFAULT_BACKOFF: Backoff = exponential()


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy in force for a task."""

    #: The first attempt is one of them; `math.inf` for any number.
    max_attempts: float = 1
    backoff: Backoff = DEFAULT_BACKOFF
    #: Only these exceptions are retried; those in `give_up_on` never are.
    retry_on: ExceptionClasses = (Exception,)
    give_up_on: ExceptionClasses = ()
    #: Whether a task is retried whose process was lost.
    retry_lost: bool = False
    timeout_seconds: float | None = None
    expires_after_seconds: float | None = None
    transactional: bool = False


#: The policy of a task without options, in a project without defaults.
DEFAULT_POLICY = Policy()


def policy_of(task: Task[..., Any], options: Mapping[str, Any]) -> Policy:
    """Return the policy in force for a task; `options` are those of its backend, the project's defaults."""

    def read(name: str, default: Any) -> Any:
        own = getattr(task, name, None)
        return own if own is not None else default if options.get(name) is None else options[name]

    policy = Policy(
        max_attempts=read("max_attempts", 1),
        backoff=read("backoff", DEFAULT_POLICY.backoff),
        retry_on=as_classes(read("retry_on", DEFAULT_POLICY.retry_on)),
        give_up_on=as_classes(read("give_up_on", ())),
        retry_lost=read("retry_lost", False),
        timeout_seconds=read_limit(read("timeout", None)),
        expires_after_seconds=read_limit(read("expires_after", None)),
        transactional=bool(getattr(task, "transactional", False)),
    )
    return DEFAULT_POLICY if policy == DEFAULT_POLICY else policy


def add_headers(
    headers: Mapping[str, float | None] | None, *, timeout: float | timedelta | None, max_attempts: float | None
) -> Mapping[str, float | None] | None:
    """Add what `using` sets for a call to the headers of its job. JSON has no infinity: None stands for it."""
    if timeout is None and max_attempts is None:
        return headers
    added: dict[str, float | None] = {} if timeout is None else {"timeout": read_limit(timeout)}
    if max_attempts is not None:
        added["max_attempts"] = None if max_attempts == math.inf else max_attempts
    return {**(headers or {}), **added}


class Policies:
    """The policies in force in a process, each computed once."""

    def __init__(self) -> None:
        #: By backend and path: tuples of both as keys would be built for each task.
        self._known: dict[str, dict[str, Policy]] = {}

    def of_claim(self, claim: Claim, task: Task[..., Any]) -> Policy:
        """Return the policy of a claimed job: that of its task, with what `using` has set for the call."""
        try:
            policy = self._known[claim.backend][claim.task_path]
        except KeyError:
            policy = policy_of(task, task_backends[claim.backend].options)
            self._known.setdefault(claim.backend, {})[claim.task_path] = policy
        headers = claim.headers
        # Most headers have a language or a time zone only: to parse them here as well would take longer than to look.
        if headers is None or ('"timeout"' not in headers and '"max_attempts"' not in headers):
            return policy
        return apply_headers(policy, json.loads(headers))


def apply_headers(policy: Policy, headers: Mapping[str, Any]) -> Policy:
    """Return the policy with what `using` has set for the call."""
    changes: dict[str, Any] = {}
    if "timeout" in headers:
        changes["timeout_seconds"] = headers["timeout"]
    if "max_attempts" in headers:
        changes["max_attempts"] = math.inf if headers["max_attempts"] is None else headers["max_attempts"]
    return replace(policy, **changes) if changes else policy


def as_classes(value: type[BaseException] | Iterable[type[BaseException]]) -> ExceptionClasses:
    """One class or several, as a tuple."""
    return (value,) if isinstance(value, type) else tuple(value)


def find_problems(options: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the values of these options; each problem begins with the name of the option."""
    for name, check in _CHECKS.items():
        if options.get(name) is not None:
            yield from check(name, options[name])


def find_contradictions(task: Task[..., Any], policy: Policy) -> Iterator[str]:
    """Options of a task that have no effect together, or not with this task."""
    # A call may have one attempt, although its task has more.
    if policy.max_attempts == 1 and "max_attempts" not in (getattr(task, "call_headers", None) or ()):
        for name in ("backoff", "retry_on", "give_up_on", "retry_lost"):
            if getattr(task, name, None):
                yield f"{name} has no effect while max_attempts is 1: set max_attempts"
    unique = getattr(task, "unique", None)
    if unique is not None and isinstance(unique.key, str):
        try:
            unique.key_for(task, (), {})
        except UniqueKeyError as error:
            yield str(error)
    if policy.transactional and iscoroutinefunction(task.func):
        yield (
            "transactional is for sync functions: in an async task, write and complete it with "
            "await context.complete_in_transaction(...)"
        )


def _check_max_attempts(name: str, value: object) -> Iterator[str]:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31
    if not is_count and value != math.inf:
        yield f"{name} must be an integer of at least 1, or math.inf, not {value!r}"


def _check_backoff(name: str, value: object) -> Iterator[str]:
    if value in (exponential, fixed, steps):
        yield f"{name} must be the result of a call, {getattr(value, '__name__', '')}(...), not the function itself"
    elif not callable(value) or isclass(value) or not _takes_two(value):
        yield f"{name} must be a function of the exception and the task's result, such as fixed(5), not {value!r}"
    elif iscoroutinefunction(value):
        yield f"{name} must not be an async function"


def _takes_two(function: Callable[..., object]) -> bool:
    try:
        signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some functions that are written in C have no signature
        return True
    return True


def _check_classes(name: str, value: object) -> Iterator[str]:
    classes = (value,) if isclass(value) else value
    if not isinstance(classes, (tuple, list)) or not all(
        isclass(kind) and issubclass(kind, BaseException) for kind in classes
    ):
        yield f"{name} must be an exception class or a tuple of them, not {value!r}"


def _check_retry_on(name: str, value: object) -> Iterator[str]:
    if value in ((), []):
        yield f"{name} must not be empty: to retry no exception, set max_attempts to 1; to retry all, set Exception"
    else:
        yield from _check_classes(name, value)


def _check_bool(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{name} must be True or False, not {value!r}"


def _check_seconds(name: str, value: object) -> Iterator[str]:
    if value != math.inf and not 0 < read_seconds(value) <= LONGEST_SECONDS:
        yield (
            f"{name} must be a number of seconds or a timedelta greater than zero (and of at most"
            f" {LONGEST_TIMEDELTA.days:,} days), or math.inf for none, not {value!r}"
        )


def _check_moment(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, datetime) or value.utcoffset() is None or not 1000 < value.year < 9999:
        yield f"{name} must be an aware datetime, such as timezone.now() + timedelta(minutes=5), not {value!r}"


def _check_on_unknown_task(name: str, value: object) -> Iterator[str]:
    if value not in ("fail", "release"):
        yield f"{name} must be 'fail' or 'release', not {value!r}"


def _check_unique(_: str, value: object) -> Iterator[str]:
    yield from uniqueness.find_problems(value)


_CHECKS: dict[str, Callable[[str, object], Iterator[str]]] = {
    "max_attempts": _check_max_attempts,
    "backoff": _check_backoff,
    "retry_on": _check_retry_on,
    "give_up_on": _check_classes,
    "retry_lost": _check_bool,
    "timeout": _check_seconds,
    "expires_after": _check_seconds,
    "on_unknown_task": _check_on_unknown_task,
    "expires_at": _check_moment,
    "transactional": _check_bool,
    "unique": _check_unique,
}
#: The options that `TASKS[...]["OPTIONS"]` may have.
PROJECT_OPTIONS = tuple(name for name in _CHECKS if name not in ("expires_at", "transactional", "unique"))
