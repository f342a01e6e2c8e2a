"""Run the task of an entry now, apart from its schedule.

The task is enqueued as a scheduler would enqueue it, but no tick is recorded: a recorded tick would keep ticks that are
late, or are still to be caught up with, from being enqueued.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.utils import timezone, translation

from steady_queue import arguments
from steady_queue.db.transactions import run_one
from steady_queue.errors import DuplicateTask, UnknownRecurringTask
from steady_queue.jobs.definition.task import TaskCall
from steady_queue.jobs.definition.uniqueness import Unique
from steady_queue.jobs.enqueueing.enqueue import enqueue_all
from steady_queue.recurring.definitions import belongs_to_other_backend, resolve_task
from steady_queue.store.operations.recurring import entries as recurring
from steady_queue.store.operations.recurring.ticks import unique_key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steady_queue.jobs.compat import Task
    from steady_queue.store.operations.recurring.entries import NewEntry


class ManualRun(NamedTuple):
    """The id of the task; if nothing was enqueued, why, and the id of the task that is in the way, if there is one."""

    job_id: str | None
    reason: str | None = None

    @property
    def is_enqueued(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True, kw_only=True)
class _UniqueRun(Unique):
    """The unique key that the ticks of an entry take as well."""

    def key_for(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        return unique_key_of(str(self.key))


def run_recurring_task(key: str) -> ManualRun:
    """Enqueue the task of an entry now, with its arguments, queue and priority, also if the entry is disabled."""
    entry = run_one(lambda sql: recurring.read_entry(sql, key))
    if entry is None:
        raise UnknownRecurringTask(f"there is no recurring task with the key {key!r}")
    task = resolve_task(entry.task_path, entry.queue_name, entry.priority)
    args, kwargs = arguments.loads(entry.arguments)
    # As in a scheduler: the language and the time zone of the person who asks are not those of the task.
    with translation.override(settings.LANGUAGE_CODE), timezone.override(timezone.get_default_timezone()):
        if belongs_to_other_backend(task):
            return ManualRun(task.enqueue(*args, **kwargs).id)
        return _enqueue(entry, task, TaskCall(task, tuple(args), kwargs))


def _enqueue(entry: NewEntry, task: Any, call: TaskCall) -> ManualRun:
    if entry.skip_if_unfinished:
        call = call._replace(task=task.using(unique=_UniqueRun(key=entry.task_key)))
    try:
        results = enqueue_all([call])
    except DuplicateTask as error:
        what = "the task of an earlier run is unfinished" if entry.skip_if_unfinished else "another task has its key"
        return ManualRun(next(iter(error.existing_ids), None), what)
    if results.existing:
        return ManualRun(results.existing[0], "another task has its key")
    if results.discarded:
        return ManualRun(None, "its concurrency key has no free slot")
    return ManualRun(results.ids[0])
