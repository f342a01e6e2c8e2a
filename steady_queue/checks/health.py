"""`manage.py steady_queue health`: whether the processes of this machine have polled recently, for container probes.

A database that replies is not enough: a worker may have lost its connection, or hang. So each process writes with its
heartbeat when it last polled, and this module compares that with the database's clock. It imports little, because
probes run it often.
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
from steady_queue.aio.process_identity import hostname, is_gone, is_here
from steady_queue.configuration import Options, alive_threshold
from steady_queue.db.missing_tables import explain_store_error
from steady_queue.errors import StoreError, StoreUnavailable
from steady_queue.store.drivers.django import DjangoDriver
from steady_queue.store.operations.processes.registration import find_process_health

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.operations.processes.registration import ProcessHealth

#: The time in which the database has to reply.
ANSWER_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Health:
    """The result, and its reasons: a line for each process, or one line for all."""

    healthy: bool
    lines: list[str] = field(default_factory=list)


def check_health(
    *, alias: str | None = None, max_age: timedelta | None = None, timeout_seconds: float = ANSWER_TIMEOUT_SECONDS
) -> Health:
    """Healthy: the machine has a process, all have recent heartbeats, and all have polled within `max_age`."""
    alias = alias or steady_queue.database
    try:
        processes = call_with_timeout(partial(_local_processes, alias), timeout_seconds=timeout_seconds)
    except Exception as error:  # a probe needs a result for every kind of error
        return Health(False, [f"the database {alias!r} cannot be queried: {error}"])
    oldest = default_max_age() if max_age is None else max_age
    findings = [(p.name, *_judge_process(p, oldest)) for p in processes if p.kind != "supervisor"]
    findings += [(p.name, False, text) for p in processes if (text := _missing_children(p, processes))]
    # Shown, but healthy: a restarted process would fail on the same row.
    findings += [(p.name, True, text) for p in processes for text in _failing_steps(p)]
    if not findings:
        return Health(False, ["no process of Steady Queue is registered on this machine"])
    return Health(all(is_healthy for _, is_healthy, _ in findings), [f"{name}: {text}" for name, _, text in findings])


def default_max_age() -> timedelta:
    """Two heartbeat intervals (one heartbeat may be lost), the longest polling interval, and ten seconds."""
    options = getattr(settings, "STEADY_QUEUE", None)
    if not isinstance(options, Options):
        options = Options()
    polls = [worker.polling_interval for worker in options.workers]
    polls += [dispatcher.polling_interval for dispatcher in options.dispatchers]
    return 2 * steady_queue.process_heartbeat_interval + max(polls, default=timedelta(0)) + timedelta(seconds=10)


def _judge_process(process: ProcessHealth, max_age: timedelta) -> tuple[bool, str]:
    heartbeat_age = process.now - process.last_heartbeat_at
    if heartbeat_age > alive_threshold():
        return False, f"no heartbeat for {_seconds(heartbeat_age)}"
    if process.polled_at is None:
        return False, "starting"
    age = process.now - process.polled_at
    if age > max_age:
        return False, f"polled {_seconds(age)} ago, longer than {_seconds(max_age)}"
    return True, f"polled {_seconds(age)} ago"


def _seconds(duration: timedelta) -> str:
    return f"{max(0.0, duration.total_seconds()):.0f} s"


def _local_processes(alias: str) -> list[ProcessHealth]:
    """The processes of this machine."""
    try:
        driver = DjangoDriver(alias)
        found = driver.run(find_process_health(driver.sql, hostname()))
    except StoreError as error:
        if missing := explain_store_error(driver, error):
            raise missing from error
        raise
    finally:
        if alias in connections:
            connections[alias].close()
    return [process for process in found if is_here(process) and not is_gone(process)]


def _failing_steps(process: ProcessHealth) -> list[str]:
    """A line for each step of maintenance that keeps failing in this process."""
    try:
        steps = json.loads(process.metadata)["maintenance"].items()
        return [
            f"maintenance: {name} has failed {step['times']} times since {step['since']}: {step['error']}"
            for name, step in steps
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _missing_children(supervisor: ProcessHealth, processes: list[ProcessHealth]) -> str | None:
    """A line for a supervisor whose children are missing: they do not start, or die immediately."""
    try:
        expected = int(json.loads(supervisor.metadata)["actors"][0]["processes"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    running = sum(process.supervisor_id == supervisor.id for process in processes)
    return f"{expected - running} of its {expected} processes are missing" if running < expected else None


T = TypeVar("T")


def call_with_timeout(function: Callable[[], T], *, timeout_seconds: float) -> T:
    """Call the function in a thread, which is abandoned after the timeout.

    Not every driver has a timeout for every way in which a server may not reply.
    """
    answers: list[Callable[[], T]] = []

    def call() -> None:
        try:
            result = function()
        except Exception as error:
            failure = error  # Python deletes the name after `as` at the end of the block

            def fail() -> T:
                raise failure

            answers.append(fail)
        else:
            answers.append(lambda: result)

    thread = threading.Thread(target=call, name="steady queue deadline", daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    if not answers:
        raise StoreUnavailable(f"no reply within {timeout_seconds:g} s")
    return answers[0]()
