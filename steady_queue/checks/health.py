"""Health: whether the processes of this machine have lately looked for work with success. For the probes of containers.

An answering database is not enough: a worker may have lost its way to it, or stand still. So each process tells with
its heartbeat when it last polled, and that is judged here by the database's clock. Imports little: it is run often.

A deadline for calls that know none: not every driver has a limit for every way in which a server may not answer.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from django.conf import settings
from django.db import connections

import steady_queue
from steady_queue.aio.identity import hostname, is_gone, is_here
from steady_queue.configuration import Options, alive_threshold
from steady_queue.errors import StoreUnavailable
from steady_queue.store.drivers.django import DjangoDriver
from steady_queue.store.operations.processes import find_process_health

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.operations.processes import ProcessHealth

#: How long the database may take to answer, in seconds.
ANSWER_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class Health:
    """The judgement, and its reasons: a line for each process, or one for all."""

    healthy: bool
    lines: list[str] = field(default_factory=list)


def judge(
    *, alias: str | None = None, max_age: timedelta | None = None, answer_within: float = ANSWER_WITHIN
) -> Health:
    """Healthy is a machine with at least one process if all of them beat in time and polled within `max_age`."""
    alias = alias or steady_queue.database
    try:
        here = answer_of(partial(_here, alias), within=answer_within)
    except Exception as error:  # a probe is answered, whatever is wrong
        return Health(False, [f"the database {alias!r} cannot be asked: {error}"])
    oldest = default_max_age() if max_age is None else max_age
    verdicts = [(p.name, *_verdict(p, oldest)) for p in here if p.kind != "supervisor"]
    verdicts += [(p.name, False, text) for p in here if (text := _vacancies(p, here))]
    # Shown, and no reason to restart anything: the next process would meet the same row.
    verdicts += [(p.name, True, text) for p in here for text in _failing_steps(p)]
    if not verdicts:
        return Health(False, ["no process of Steady Queue is registered on this machine"])
    return Health(all(well for _, well, _ in verdicts), [f"{name}: {reason}" for name, _, reason in verdicts])


def default_max_age() -> timedelta:
    """Two heartbeats, of which one may be lost, the slowest of the configured polls, and ten seconds."""
    options = getattr(settings, "STEADY_QUEUE", None)
    if not isinstance(options, Options):
        options = Options()
    polls = [worker.polling_interval for worker in options.workers]
    polls += [dispatcher.polling_interval for dispatcher in options.dispatchers]
    return 2 * steady_queue.process_heartbeat_interval + max(polls, default=timedelta(0)) + timedelta(seconds=10)


def _verdict(process: ProcessHealth, max_age: timedelta) -> tuple[bool, str]:
    silence = process.now - process.last_heartbeat_at
    if silence > alive_threshold():
        return False, f"no heartbeat for {_seconds(silence)}"
    if process.polled_at is None:
        return False, "starting"
    age = process.now - process.polled_at
    if age > max_age:
        return False, f"polled {_seconds(age)} ago, longer than {_seconds(max_age)}"
    return True, f"polled {_seconds(age)} ago"


def _seconds(span: timedelta) -> str:
    return f"{max(0.0, span.total_seconds()):.0f} s"


def _here(alias: str) -> list[ProcessHealth]:
    """The processes of this machine."""
    try:
        driver = DjangoDriver(alias)
        found = driver.run(find_process_health(driver.sql, hostname()))
    finally:
        if alias in connections:
            connections[alias].close()
    return [process for process in found if is_here(process) and not is_gone(process)]


def _failing_steps(process: ProcessHealth) -> list[str]:
    """What to say of the steps of its maintenance that keep failing."""
    try:
        steps = json.loads(process.metadata)["maintenance"].items()
        return [
            f"maintenance: {name} has failed {step['times']} times since {step['since']}: {step['error']}"
            for name, step in steps
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _vacancies(supervisor: ProcessHealth, here: list[ProcessHealth]) -> str | None:
    """What to say of a supervisor some of whose processes are missing: they do not start, or die as soon as they do."""
    try:
        posts = int(json.loads(supervisor.metadata)["actors"][0]["posts"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    there = sum(process.supervisor_id == supervisor.id for process in here)
    return f"{posts - there} of its {posts} processes are missing" if there < posts else None


T = TypeVar("T")


def answer_of(function: Callable[[], T], *, within: float) -> T:
    """What the function returns or raises, from a thread of its own that is left alone if it takes longer."""
    answers: list[Callable[[], T]] = []

    def call() -> None:
        try:
            result = function()
        except Exception as error:
            failure = error  # the name after `as` ends with the block

            def fail() -> T:
                raise failure

            answers.append(fail)
        else:
            answers.append(lambda: result)

    thread = threading.Thread(target=call, name="steady queue deadline", daemon=True)
    thread.start()
    thread.join(within)
    if not answers:
        raise StoreUnavailable(f"no answer within {within:g} s")
    return answers[0]()
