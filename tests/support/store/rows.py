"""Rows of the queue's tables, read and written for the tests of the store's operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from steady_queue.models import Job
from steady_queue.store.job import Claim, NewJob, Status
from steady_queue.store.outcome import Finished, Released, Settlement, Verdict
from tests.support.databases.tables import counts, query, row
from tests.support.store.jobs import failed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Outcome
    from tests.support.store.stores import Store

ENDS: dict[str, Callable[[Claim], Outcome]] = {"finished": Finished, "failed": failed, "released": Released}

each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())


def job_row(store: Store, new: NewJob) -> dict[str, Any]:
    found = row(store.alias, "Job", new.id, "id")
    assert found is not None
    return found


def all_rows(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Every row that a settle could change."""
    tables = ("job", "readyexecution", "blockedexecution", "claimedexecution", "failedexecution", "semaphore")
    return {table: sorted(query(store.alias, f"SELECT * FROM steady_queue_{table}"), key=repr) for table in tables}


def verdicts(settlement: Settlement, *claims: Claim) -> list[Verdict]:
    assert len(settlement.verdicts) == len(claims)
    return [settlement.verdicts[claim.claim_id] for claim in claims]


def ids_of_claims(claims: Iterable[Claim]) -> list[UUID]:
    return [claim.job_id for claim in claims]


def ids_of_jobs(jobs: Iterable[NewJob]) -> list[UUID]:
    return [new.id for new in jobs]


def pause(store: Store, *queues: str) -> None:
    for name in queues:
        query(store.alias, "INSERT INTO steady_queue_pause VALUES (%s, '2024-01-01 00:00:00')", name)


def slots(store: Store, key: str = "key") -> list[int]:
    rows = query(store.alias, "SELECT slot FROM steady_queue_semaphore WHERE concurrency_key = %s ORDER BY slot", key)
    return [slot for (slot,) in rows]


def holders(store: Store, *jobs: NewJob) -> list[NewJob]:
    """Those of the jobs that are ready."""
    return [new for new, record in zip(jobs, store.find(*jobs), strict=True) if record.status is Status.READY]


def store_blocked(store: Store, *jobs: NewJob) -> None:
    """Store the jobs as an open transaction of a caller does: without promotion."""
    store.enqueue(*jobs, promoting=False)
    assert counts(store.alias).get("blocked") == len(jobs)


def all_jobs(store: Store) -> list[NewJob]:
    """What the job table holds, in the order of ids."""
    return [NewJob(*values) for values in Job.objects.using(store.alias).order_by("id").values_list(*NewJob._fields)]


def stored_ids(store: Store) -> set[UUID]:
    return {stored.id for stored in all_jobs(store)}
