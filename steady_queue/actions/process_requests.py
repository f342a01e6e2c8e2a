"""The steps of requests to processes, written once for their sync and their async forms; see db/transactions.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.actions.cancellation import build_request
from steady_queue.actions.steps import job_id_of
from steady_queue.db.notify import REQUESTS
from steady_queue.db.transactions import AfterCommit
from steady_queue.errors import JobIsNotRunning, UnknownProcess, UnknownRequest
from steady_queue.jobs.results.results import no_result
from steady_queue.store.ids import new_job_ids, parse_uuid
from steady_queue.store.operations.processes import requests as store
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from steady_queue.actions.steps import TaskOrId
    from steady_queue.db.transactions import Action, Scope, Steps


@dataclass(frozen=True, slots=True)
class ProcessReply:
    """What a process has replied to a request."""

    replied_at: datetime
    #: Whether the process stops.
    is_stopping: bool = False
    #: Whether the task ran in the process when it replied, and for how long.
    is_running: bool = False
    run_seconds: float | None = None
    #: The lines of the stack of the task, the innermost call last.
    stack: tuple[str, ...] = ()


class SentRequest(NamedTuple):
    """A request as it is stored."""

    #: The task whose stack is wanted.
    job_id: UUID | None
    requested_at: datetime
    #: The time of the database when this was read.
    now: datetime
    reply: ProcessReply | None


def stop_process(process_id: UUID | str, by: str) -> Action[str]:
    """Ask a process to stop; returns the id of the request."""
    request_id, asked, who = new_job_ids(1)[0], parse_uuid(process_id), build_request(by).by

    def steps(scope: Scope) -> Steps[str]:
        if asked is None or not (yield store.request_stop(scope.sql, request_id, asked, who)):
            raise UnknownProcess(f"no process has the id {str(process_id)!r:.100}: it has stopped, or was pruned")
        yield AfterCommit(topic=REQUESTS)
        return str(request_id)

    return steps


def request_stack(task: TaskOrId, by: str) -> Action[str]:
    """Ask the process that runs a task for its stack; returns the id of the request."""
    request_id, job_id, who = new_job_ids(1)[0], job_id_of(task), build_request(by).by

    def steps(scope: Scope) -> Steps[str]:
        if not (yield store.request_stack(scope.sql, request_id, job_id, who)):
            found = yield find_jobs(scope.sql, [job_id])
            if not found:
                raise no_result(job_id)
            raise JobIsNotRunning(f"the task {job_id} is not running: it is {found[0].status}")
        yield AfterCommit(topic=REQUESTS)
        return str(request_id)

    return steps


def read_reply(request_id: UUID | str) -> Action[ProcessReply | None]:
    """Read the reply to a request; None if there is none yet."""

    def steps(scope: Scope) -> Steps[ProcessReply | None]:
        return (yield from read_request(request_id)(scope)).reply

    return steps


def read_request(request_id: UUID | str) -> Action[SentRequest]:
    """Read a request with its reply."""
    asked = parse_uuid(request_id)

    def steps(scope: Scope) -> Steps[SentRequest]:
        found: store.RequestReply | None = None
        if asked is not None:
            found = yield store.find_reply(scope.sql, asked)
        if found is None:
            raise UnknownRequest(f"no request has the id {str(request_id)!r:.100}: it was deleted after 10 minutes")
        reply = None
        if found.reply is not None and found.replied_at is not None:
            reply = _build_reply(found.reply, found.replied_at)
        return SentRequest(found.job_id, found.requested_at, found.now, reply)

    return steps


def _build_reply(text: str, replied_at: datetime) -> ProcessReply:
    values = json.loads(text)
    return ProcessReply(
        replied_at=replied_at,
        is_stopping=bool(values.get("is_stopping")),
        is_running=bool(values.get("is_running")),
        run_seconds=values.get("run_seconds"),
        stack=tuple(values.get("stack", ())),
    )
