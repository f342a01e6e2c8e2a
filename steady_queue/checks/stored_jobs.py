"""`manage.py steady_queue check --stored`: which stored jobs the code at hand could not run.

Each job that has not ended is looked at: its task is imported, its arguments are restored and bound to the signature of
the function, its backend and queue are looked up. Model classes and enums are resolved, but no instance is fetched: a
row that was deleted is not a fault of the code. Jobs that run now count as well, because a shutdown releases them.

The memory that this needs depends neither on the number of jobs nor on the length of their arguments together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from steady_queue import arguments
from steady_queue.db.transactions import run_one
from steady_queue.errors import SteadyQueueError
from steady_queue.jobs.definition.options import find_backend
from steady_queue.jobs.definition.signatures import check_call, fitting_shapes
from steady_queue.jobs.registry import registry
from steady_queue.store.job import Status
from steady_queue.store.operations import pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from steady_queue.jobs.compat import Task
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: In the order in which jobs move: one that moves while this runs is met at least once.
STATUSES = (Status.FAILED, Status.SCHEDULED, Status.BLOCKED, Status.READY, Status.CLAIMED)
#: Jobs that are listed by one statement, and characters of arguments that are read by one, unless a job has more.
LISTED_ROWS, READ_CHARACTERS = 500, 4_000_000
#: Findings that are kept; more of them are counted as one.
MAX_FINDINGS = 1000
MAX_REASON_CHARACTERS = 500
OTHER = "(other tasks)"


class Problem(NamedTuple):
    """Why a job cannot be run; a warning if it can, but something about it is no longer right."""

    reason: str
    is_warning: bool = False


@dataclass(slots=True)
class Finding:
    """The jobs of one task that have the same problem."""

    task_path: str
    problem: Problem
    #: The id of the first of them, or the key of a recurring task.
    example: str
    count: int = 0


@dataclass(slots=True)
class StoredReport:
    """What was looked at, and what is wrong with it."""

    #: How many jobs had each status; and `recurring`, the number of recurring tasks that were made at run time.
    checked: Counter[str] = field(default_factory=Counter)
    #: How many of them would fail.
    failing: int = 0
    findings: dict[tuple[str, Problem], Finding] = field(default_factory=dict)

    def add(self, what: str, task_path: str, problems: list[Problem], example: str) -> None:
        self.checked[what] += 1
        self.failing += any(not problem.is_warning for problem in problems)
        for problem in problems:
            key = (task_path, problem)
            if key not in self.findings and len(self.findings) >= MAX_FINDINGS:
                key = (OTHER, Problem("more problems than can be listed", problem.is_warning))
            self.findings.setdefault(key, Finding(*key, example)).count += 1

    def sorted_findings(self) -> list[Finding]:
        """Failures before warnings, by task, the most frequent first."""
        return sorted(
            self.findings.values(), key=lambda one: (one.problem.is_warning, one.task_path, -one.count, one.problem)
        )


def count_stored(*, failed: bool = False) -> int:
    """How many jobs `examine_stored` is going to look at."""
    return sum(_run(pending.count_jobs, status) for status in _statuses(failed))


def examine_stored(*, failed: bool = False, progress: Callable[[int], None] = lambda count: None) -> StoredReport:
    """Look at every job that has not ended, with `failed` also at those that failed, and at recurring tasks."""
    report, code = StoredReport(), CodeAtHand()
    for status in _statuses(failed):
        for job in _read_jobs(status, progress):
            problems = list(code.find_problems(job.task_path, job.arguments, job.backend, job.queue_name))
            report.add(status.value, job.task_path, problems, str(job.id))
    for entry in _read_entries():
        problems = list(code.find_problems(entry.task_path, entry.arguments, None, entry.queue_name))
        report.add("recurring", entry.task_path, problems, entry.task_key)
    return report


def _run(operation: Callable[..., Operation[T]], *args: Any) -> T:
    return run_one(lambda sql: operation(sql, *args))


def _statuses(failed: bool) -> tuple[Status, ...]:
    return STATUSES if failed else STATUSES[1:]


def _read_jobs(status: Status, progress: Callable[[int], None]) -> Iterator[pending.PendingJob]:
    after = pending.FIRST_ID
    while listed := _run(pending.list_jobs, status, after, LISTED_ROWS):
        for ids in _split(listed):
            yield from _run(pending.read_jobs, ids)
            progress(len(ids))
        after = listed[-1][0]


def _split(listed: list[tuple[UUID, int]]) -> Iterator[list[UUID]]:
    """Parts whose arguments are read by one statement."""
    part: list[UUID] = []
    characters = 0
    for id_, length in listed:
        if part and characters + length > READ_CHARACTERS:
            yield part
            part, characters = [], 0
        part.append(id_)
        characters += length
    yield part


def _read_entries() -> Iterator[pending.DynamicEntry]:
    after = ""
    while entries := _run(pending.read_dynamic_entries, after, LISTED_ROWS):
        yield from entries
        after = entries[-1].task_key


class CodeAtHand:
    """Finds what the code of this process cannot do with stored calls."""

    def __init__(self) -> None:
        # An import that fails can be slow: it is tried once for each path.
        self._tasks: dict[str, Task[..., Any] | str] = {}
        self._places: dict[tuple[str, str | None], list[Problem]] = {}

    def find_problems(self, path: str, text: str, backend: str | None, queue: str | None) -> Iterator[Problem]:
        """Why a call cannot be run; `backend` and `queue` are None for those of the task."""
        task = self._find_task(path)
        if isinstance(task, str):
            yield _problem(task)
            return
        yield from self._check_place(task.backend if backend is None else backend, queue)
        try:
            args, kwargs = arguments.resolve(text)
            if (len(args), *kwargs) not in fitting_shapes(task):
                check_call(task, args, kwargs)
        except SteadyQueueError as error:
            yield _problem(str(error))

    def _find_task(self, path: str) -> Task[..., Any] | str:
        found = self._tasks.get(path)
        if found is None:
            if len(self._tasks) >= MAX_FINDINGS:
                self._tasks.clear()
            try:
                found = registry.resolve(path)
            except SteadyQueueError as error:
                found = str(error)
            except (Exception, SystemExit) as error:  # importing a module may raise anything
                found = f"{path!r} cannot be imported: {type(error).__name__}: {error}"
            self._tasks[path] = found
        return found

    def _check_place(self, alias: str, queue: str | None) -> list[Problem]:
        """What is wrong with the backend and the queue."""
        found = self._places.get((alias, queue))
        if found is None:
            if len(self._places) >= MAX_FINDINGS:
                self._places.clear()
            found = self._places[alias, queue] = list(_find_place_problems(alias, queue))
        return found


def _find_place_problems(alias: str, queue: str | None) -> Iterator[Problem]:
    try:
        backend = find_backend(alias)
    except Exception as error:  # of the settings, or of the module of another backend
        yield _problem(str(error))
        return
    if queue is not None and backend.queues and queue not in backend.queues:
        # A worker runs it all the same, if one still serves the queue.
        yield _problem(f"the queue {queue!r} is not in TASKS[{alias!r}]['QUEUES']", is_warning=True)


def _problem(reason: str, *, is_warning: bool = False) -> Problem:
    line = " ".join(reason.split())
    return Problem(line if len(line) <= MAX_REASON_CHARACTERS else f"{line[:MAX_REASON_CHARACTERS]}…", is_warning)
