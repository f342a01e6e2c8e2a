"""A snapshot of everything that the database shows, and the same as the model expects it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue.store.job import Status
from steady_queue.store.operations.actions.job_actions import MANUAL_SLOT_BASE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from tests.stateful.model import Model
    from tests.support.store.stores import Store


class JobSnapshot(NamedTuple):
    """One job. Two execution rows, or none, show as a status that the model never has."""

    status: str
    queue: str
    priority: int
    attempts: int
    retries: int
    last_claim_id: UUID | None
    claim_id: UUID | None
    owner: UUID | None
    due: datetime | None
    #: The key of the slot it holds, and whether run_now() gave it.
    slot: tuple[str, bool] | None
    #: Why it has failed.
    failure: int | None = None
    expires_at: datetime | None = None
    unique_key: str | None = None


class Snapshot(NamedTuple):
    jobs: dict[UUID, JobSnapshot]
    processes: set[UUID]
    pauses: set[str]
    ticks: dict[tuple[str, datetime], UUID]
    #: The jobs that are requested to stop.
    requests: set[UUID]
    #: The rows of jobs that expire.
    expiries: dict[UUID, datetime]
    #: Each unique key that a job needs or that is held for some time: the job, until when, and whether it is held.
    keys: dict[str, tuple[UUID, int, bool]]

    def differences(self, expected: Snapshot) -> list[str]:
        """What differs from the expected state, as text."""
        found = []
        for id_ in sorted(self.jobs.keys() | expected.jobs.keys()):
            shown, meant = self.jobs.get(id_), expected.jobs.get(id_)
            if shown != meant:
                found.append(f"job {id_} is {shown}, not {meant}")
        for what, shown_, meant_ in zip(self._fields[1:], self[1:], expected[1:], strict=True):
            if shown_ != meant_:
                found.append(f"{what} are {shown_}, not {meant_}")
        return found


#: The rows of all executions. First those whose columns give PostgreSQL the types of the nulls in the others.
_EXECUTIONS = " UNION ALL ".join(
    f"SELECT '{status}' AS state, job_id, {columns} FROM steady_queue_{status}execution"
    for status, columns in (
        (Status.CLAIMED, "claim_id, process_id, NULL AS due"),
        (Status.SCHEDULED, "NULL, NULL, scheduled_at"),
        (Status.READY, "NULL, NULL, NULL"),
        (Status.BLOCKED, "NULL, NULL, NULL"),
        (Status.FAILED, "NULL, NULL, NULL"),
    )
)


def snapshot_of_database(store: Store) -> Snapshot:
    """The committed state of the database."""
    rows: dict[UUID, list[tuple[Any, ...]]] = {}
    for status, job_id, *rest in store.ask(_EXECUTIONS, returns=".uuut"):
        rows.setdefault(job_id, []).append((status, *rest))
    slots = {
        job_id: (key, slot > MANUAL_SLOT_BASE)
        for job_id, key, slot in store.ask(
            "SELECT job_id, concurrency_key, slot FROM steady_queue_semaphore", returns="u.."
        )
    }
    jobs = {}
    kinds = {row[0]: row[1] for row in store.ask("SELECT job_id, kind FROM steady_queue_failedexecution", returns="u.")}
    for id_, queue, priority, attempts, retries, last_claim_id, finished_at, expires_at, unique_key in store.ask(
        "SELECT id, queue_name, priority, attempts, retries, last_claim_id, finished_at, expires_at, unique_key"
        " FROM steady_queue_job",
        returns="u....utt.",
    ):
        states = rows.pop(id_, [])
        if finished_at is not None:
            states = [*states, (Status.FINISHED.value, None, None, None)]
        status, claim_id, owner, due = states[0] if len(states) == 1 else (str(states), None, None, None)
        jobs[id_] = JobSnapshot(
            status,
            queue,
            priority,
            attempts,
            retries,
            last_claim_id,
            claim_id,
            owner,
            due,
            slots.pop(id_, None),
            kinds.get(id_),
            expires_at,
            unique_key,
        )
    for id_, states in rows.items():
        jobs[id_] = JobSnapshot(f"no job, but {states}", "", 0, 0, 0, None, None, None, None, slots.pop(id_, None))
    assert not slots, f"slots without a job: {slots}"
    return Snapshot(
        jobs,
        {row[0] for row in store.ask("SELECT id FROM steady_queue_process", returns="u")},
        {row[0] for row in store.ask("SELECT queue_name FROM steady_queue_pause", returns=".")},
        {
            (key, run_at): job_id
            for key, run_at, job_id in store.ask(
                "SELECT task_key, run_at, job_id FROM steady_queue_recurringexecution", returns=".tu"
            )
        },
        {row[0] for row in store.ask("SELECT job_id FROM steady_queue_cancellation", returns="u")},
        {row[0]: row[1] for row in store.ask("SELECT job_id, expires_at FROM steady_queue_expiry", returns="ut")},
        _needed_keys(store, jobs),
    )


def _needed_keys(store: Store, jobs: Mapping[UUID, JobSnapshot]) -> dict[str, tuple[UUID, int, bool]]:
    held = f"CASE WHEN held_until > {store.sql.now} THEN 1 ELSE 0 END"
    rows = store.ask(f"SELECT unique_key, job_id, until, {held} FROM steady_queue_uniquekey", returns=".uii")
    unfinished = {id_ for id_, job in jobs.items() if job.status not in (Status.FINISHED.value, Status.FAILED.value)}
    return {
        key: (job_id, until, bool(is_held))
        for key, job_id, until, is_held in rows
        if is_held or (job_id in unfinished and jobs[job_id].unique_key == key)
    }


def snapshot_of_model(model: Model) -> Snapshot:
    """The state that the model expects."""
    jobs = {
        job.new.id: JobSnapshot(
            job.status.value,
            job.new.queue_name,
            job.new.priority,
            job.attempts,
            job.retries,
            job.last_claim_id,
            job.claim_id,
            job.owner,
            job.due,
            None if job.holds is None else (job.holds, job.is_manual),
            job.failure,
            job.expires_at,
            job.new.unique_key,
        )
        for job in model.jobs.values()
    }
    return Snapshot(
        jobs,
        set(model.processes),
        set(model.pauses),
        {tick: id_ for tick, (id_, _) in model.ticks.made.items()},
        set(model.requests),
        dict(model.expiries),
        model.keys.needed(model),
    )


def find_stuck_jobs(snapshot: Snapshot, model: Model, limits: Mapping[str, int]) -> list[str]:
    """Blocked jobs that are first of their key although it has a slot for them."""
    found = []
    for key in model.blocked_keys():
        first = next(job for job in model.those(Status.BLOCKED) if job.new.concurrency_key == key)
        slots = sum(job.slot is not None and job.slot[0] == key for job in snapshot.jobs.values())
        if slots < model.limit_of(first, limits):
            found.append(f"{first.new.id} is blocked although {key} has a free slot: {slots} are in use")
    return found
