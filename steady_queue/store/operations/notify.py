"""Notify: wake the listening processes when there is something to claim. Only a hint: polling finds the jobs as well.

Sent after commit, not inside the transaction that enqueues: there it serializes all commits of the server. The
exception is a single job of a process that has not notified recently: see db/notify.py.

A process that waits for results announces the ids of the jobs to the workers. A worker that changes one of these jobs
notifies the waiting processes, on another channel: enqueues must not wake them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from steady_queue.store.names import NOTIFY_CHANNEL, RESULTS_CHANNEL
from steady_queue.store.statement import chunks_of, operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Statement

#: The first word of a payload: the end of these jobs is awaited, or every change of them.
AWAITED, FOLLOWED = "awaited", "followed"
#: A payload has less than 8,000 bytes.
IDS_PER_PAYLOAD = 200


@operation(transaction=False)
def notify(sql: Dialect, payload: str = "") -> Flow[None]:
    """Notify every listener; does nothing where the database has no notifications."""
    if sql.can_notify:
        yield sql.statement("SELECT pg_notify(?, ?)", NOTIFY_CHANNEL, payload, returns=".")


@operation(transaction=False)
def announce_waits(sql: Dialect, awaited: Sequence[UUID], followed: Sequence[UUID], probe: str) -> Flow[None]:
    """Announce to the workers for which jobs this process waits; the process itself receives the probe."""
    sent = [(NOTIFY_CHANNEL, f"{AWAITED} {ids}") for ids in _payloads(awaited)]
    sent += [(NOTIFY_CHANNEL, f"{FOLLOWED} {ids}") for ids in _payloads(followed)]
    yield _notify_each(sql, [*sent, (RESULTS_CHANNEL, probe)])


@operation(transaction=False)
def announce_changes(sql: Dialect, job_ids: Sequence[UUID]) -> Flow[None]:
    """Notify the processes that wait for these jobs."""
    yield _notify_each(sql, [(RESULTS_CHANNEL, ids) for ids in _payloads(job_ids)])


def parse_ids(text: str) -> list[UUID]:
    """The ids of a payload; none if it is not a list of ids, because any program may send to a channel."""
    try:
        return [UUID(part) for part in text.split(",")]
    except ValueError:
        return []


def _payloads(job_ids: Sequence[UUID]) -> Iterable[str]:
    return (",".join(id_.hex for id_ in chunk) for chunk in chunks_of(job_ids, IDS_PER_PAYLOAD))


def _notify_each(sql: Dialect, sent: Sequence[tuple[str, str]]) -> Statement:
    calls = ", ".join(["pg_notify(?, ?)"] * len(sent))
    return sql.statement(f"SELECT {calls}", *(value for pair in sent for value in pair), returns="." * len(sent))
