"""`manage.py steady_queue run <id>`: runs a stored task in this process, and changes nothing of it in the queue.

The task gets the arguments, the language, the time zone and the context that a worker would give it. Nothing is claimed
or settled: its state, its attempts and its result in the database stay as they are. What the task itself writes is
written, except with `--rollback`.
"""

from __future__ import annotations

import contextvars
import json
import pdb
import traceback
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from asgiref.sync import async_to_sync
from django.core.management.base import CommandError
from django.db import connections, transaction

from steady_queue import arguments
from steady_queue.db.aliases import queue_alias
from steady_queue.db.transaction_guard import guarded
from steady_queue.db.transactions import run_one
from steady_queue.errors import SteadyQueueError
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.jobs.definition.task import lane_of
from steady_queue.jobs.enqueueing.caller_locale import activate
from steady_queue.jobs.registry import registry
from steady_queue.jobs.results import results
from steady_queue.jobs.running.context import NoServices, TaskContext, TaskControl
from steady_queue.jobs.running.requests import TaskRequest
from steady_queue.store.job import Claim, Lane, Status
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django.core.management.base import OutputWrapper

    from steady_queue.db.transaction_guard import TransactionGuard
    from steady_queue.jobs.compat import Task
    from steady_queue.jobs.running.reports import LogLine, Progress
    from steady_queue.store.job import JobRecord

#: The name that the task sees as that of its worker.
WORKER_NAME = "manage.py steady_queue run"
#: Characters of the arguments and of the return value that are shown.
SHOWN_CHARACTERS = 2000


class ShownReports(NoServices):
    """Writes what the task reports to stderr, instead of storing it."""

    def __init__(self, err: OutputWrapper) -> None:
        self._err = err

    def put_progress(self, claim: Claim, progress: Progress) -> None:
        total = "" if progress.total is None else f" of {progress.total:g}"
        self._err.write(f"progress: {progress.done:g}{total} {progress.message}".rstrip(), _plain)

    def put_line(self, claim: Claim, line: LogLine) -> None:
        self._err.write(f"log: {line.message}", _plain)


class Replay(NamedTuple):
    """A stored task that was loaded, ready to be called."""

    claim: Claim
    task: Task[..., Any]
    args: list[Any]
    kwargs: dict[str, Any]

    def call(self, services: NoServices) -> Any:
        """Call the function as a worker does; an async function in an event loop of its own."""
        control = TaskControl(self.claim, is_replay=True)
        args = self.args
        if self.claim.headers is not None:
            activate(json.loads(self.claim.headers))
        if self.task.takes_context:
            result = results.of_claim(self.claim, self.task, WORKER_NAME)
            args = [TaskContext(task_result=result, control=control, services=services), *args]
        is_async = lane_of(self.task.func) is Lane.ASYNC
        # `async_to_sync`, and not `asyncio.run`: then the ORM of the task uses the connections of this thread, whose
        # transactions `--rollback` rolls back.
        call = async_to_sync(self.task.func) if is_async else self.task.func
        if getattr(self.task, "transactional", False):
            with guarded(queue_alias()) as guard:
                value = call(*args, **self.kwargs)
                guard.check()
        else:
            value = call(*args, **self.kwargs)
        arguments.dump_result(value)  # a value that cannot be stored is a failure in a worker, too
        return value


def run_stored(out: OutputWrapper, err: OutputWrapper, options: dict[str, Any]) -> int:
    """Run the task with the id of the command line, write what came of it, and return the exit status."""
    (result_id,) = options["ids"]
    record = find_record(result_id, force=options["force"])
    replay = load(record)
    err.write(f"{record.task_path} {record.id} ({record.status}), called with {_shown_call(record)}", _plain)
    aliases = _transactional_aliases() if options["rollback"] else []
    with rolled_back(aliases) as guards:
        status = _call(replay, out, err, debugs=options["pdb"])
        problems = {guard.connection.alias: error for guard in guards if (error := guard.find_violation()) is not None}
    if problems:
        status = 1
    for alias, problem in problems.items():
        err.write(f"{alias}: {problem}", _plain)
    if rolled := [guard.connection.alias for guard in guards if not guard.has_ended]:
        err.write(f"rolled back: {', '.join(rolled)}", _plain)
    if ended := [guard.connection.alias for guard in guards if guard.has_ended]:
        err.write(f"not rolled back, or not all of it: {', '.join(ended)}", _plain)
    return status


def find_record(result_id: str, *, force: bool) -> JobRecord:
    """Return the stored task; raises CommandError if it does not exist, or runs now and `force` is not set."""
    try:
        job_id = results.parse_id(result_id)
        found = run_one(lambda sql: find_jobs(sql, [job_id]))
        if not found:
            raise results.no_result(job_id)
    except (TaskResultDoesNotExist, SteadyQueueError) as error:
        raise CommandError(str(error)) from error
    record = found[0]
    if record.status is Status.CLAIMED and not force:
        raise CommandError(
            f"the task {record.id} runs now, in {record.claimed_by or 'a process that is gone'}; "
            "to run it here at the same time, add --force"
        )
    return record


def load(record: JobRecord) -> Replay:
    """Load the task and its arguments; raises CommandError if this code cannot do that."""
    try:
        task = registry.resolve(record.task_path)
        args, kwargs = arguments.loads(record.arguments)
    except SteadyQueueError as error:
        raise CommandError(f"{record.task_path} {record.id} cannot be run: {error}") from error
    return Replay(_claim_of(record), task, args, kwargs)


def _claim_of(record: JobRecord) -> Claim:
    """A claim that only the context of the task sees."""
    stored = {name: getattr(record, name) for name in Claim._fields if name in record._fields}
    given: dict[str, Any] = {"job_id": record.id, "claim_id": uuid4(), "claimed_at": datetime.now(UTC)}
    return Claim(**{"concurrency_limit": None, **stored, **given})


def _call(replay: Replay, out: OutputWrapper, err: OutputWrapper, *, debugs: bool) -> int:
    try:
        # In a copy of the context: the language and the time zone of the task are not those of the caller.
        value = contextvars.copy_context().run(replay.call, ShownReports(err))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        err.write("".join(traceback.format_exception(error)).rstrip("\n"), _plain)
        if isinstance(error, TaskRequest):
            err.write(f"a worker would carry out the request {type(error).__name__}", _plain)
        if debugs:
            pdb.post_mortem(error.__traceback__)
        return 1
    out.write(_shown(value))
    return 0


# -- rolling back -----------------------------------------------------------------------------------------------------


@contextmanager
def rolled_back(aliases: Sequence[str]) -> Iterator[list[TransactionGuard]]:
    """Roll back what is written to these databases on the connections of this thread."""
    with ExitStack() as stack:
        guards = [
            stack.enter_context(guarded(alias, "it would end the transaction of --rollback")) for alias in aliases
        ]
        try:
            yield guards
        finally:
            for alias in aliases:
                if connections[alias].in_atomic_block:
                    transaction.set_rollback(True, using=alias)


def _transactional_aliases() -> list[str]:
    """The databases of the project."""
    return [alias for alias in connections if connections[alias].settings_dict["ENGINE"] != "django.db.backends.dummy"]


# -- output -----------------------------------------------------------------------------------------------------------


def _shown_call(record: JobRecord) -> str:
    args, kwargs = arguments.view_text(record.arguments)
    given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return _cut(f"({', '.join(given)})")


def _shown(value: Any) -> str:
    try:
        return _cut(repr(value))
    except Exception:  # any value can be returned
        return f"an instance of {type(value).__name__}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _plain(text: str) -> str:
    """Instead of Django's style of stderr, which is red."""
    return text
