from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

import steady_queue
from steady_queue.errors import ConfigurationError
from steady_queue.models.fields import KEY_LENGTH, NAME_LENGTH, MomentField, NameField
from steady_queue.store.job import Lane, OnConflict, Until

if TYPE_CHECKING:
    from datetime import datetime

    from django.core.checks import CheckMessage

LANES = [(lane.value, lane.name.lower()) for lane in Lane]
ON_CONFLICT = [(choice.value, choice.name.lower()) for choice in OnConflict]
UNTIL = [(until.value, until.name.lower()) for until in Until]


def without_partial_index_warning(messages: list[CheckMessage]) -> list[CheckMessage]:
    """The messages except one: MySQL has no partial indexes and builds full ones instead, which work as well."""
    return [message for message in messages if message.id != "models.W037"]


class JobManager(models.Manager["Job"]):
    """Jobs, and the way to delete them that keeps the queue consistent."""

    def clear_finished_in_batches(
        self,
        batch_size: int = 500,
        finished_before: datetime | None = None,
        class_name: Any = None,
        sleep_between_batches: float = 0,
    ) -> int:
        """Delete jobs that finished before a time, by default `clear_finished_jobs_after` ago; returns how many.

        `class_name` is a task or its path.
        """
        from steady_queue.actions.cleanup import build_ended_filter, clear_finished

        before = steady_queue.clear_finished_jobs_after if finished_before is None else finished_before
        if before is None:
            raise ConfigurationError("clear_finished_jobs_after is None: pass finished_before")
        return clear_finished(
            build_ended_filter(before, task=class_name), batch=batch_size, pause=sleep_between_batches
        )


class Job(models.Model):
    """One enqueued task. Inserted once, and updated when an attempt ends and when a running task saves or reports."""

    id = models.UUIDField(primary_key=True, editable=False)
    queue_name = NameField(max_length=NAME_LENGTH)
    task_path = NameField(max_length=NAME_LENGTH)
    #: JSON in pure ASCII, so that every database returns it exactly: see steady_queue.arguments.
    arguments = models.TextField()
    priority = models.SmallIntegerField()
    lane = models.SmallIntegerField(choices=LANES)
    backend = NameField(max_length=NAME_LENGTH)
    enqueued_at = MomentField()
    scheduled_at = MomentField(null=True)
    #: The job never runs if its first attempt has not started by then.
    expires_at = MomentField(null=True)
    #: JSON object: `locale` and `timezone` of the enqueuer, where they differ from the settings, and `timeout` and
    #: `max_attempts` of this call, where they differ from the task's.
    headers = models.TextField(null=True)

    concurrency_key = NameField(max_length=KEY_LENGTH, null=True)
    concurrency_limit = models.IntegerField(null=True)
    on_conflict = models.SmallIntegerField(choices=ON_CONFLICT, null=True)
    #: Microseconds after its claim when its slot is released.
    overrun_after = models.BigIntegerField(null=True)
    #: The key that no other waiting (or unfinished) job may have: see UniqueKey.
    unique_key = NameField(max_length=KEY_LENGTH, null=True)
    #: Until when it holds the key.
    unique_until = models.SmallIntegerField(choices=UNTIL, null=True)
    #: JSON object, given with the call and changed by the task.
    metadata = models.TextField(null=True)
    #: Reserved for batches: no code uses this column yet.
    batch_id = models.UUIDField(null=True)

    started_at = MomentField(null=True)
    last_attempted_at = MomentField(null=True)
    finished_at = MomentField(null=True)
    attempts = models.IntegerField(db_default=0)
    #: Automatic retries since the job was enqueued or retried by hand.
    retries = models.IntegerField(db_default=0)
    #: The claim whose settle ended the last attempt: a repeated settle finds its own id, a fenced one another.
    last_claim_id = models.UUIDField(null=True)
    #: One name for each attempt, and one JSON object for each error, each on its own line: appending needs no read.
    worker_ids = models.TextField(null=True)
    errors = models.TextField(null=True)
    return_value = models.TextField(null=True)
    #: Unused since cancellation has a table of its own. Version 0.2.0 reads it, so a later version removes it.
    cancel_requested_at = MomentField(null=True)
    #: JSON object: what the task last reported of its progress.
    progress = models.TextField(null=True)
    #: What the task logged, one JSON object on each line; the oldest lines are cut.
    log = models.TextField(null=True)
    #: JSON that an attempt stored for the next one.
    saved = models.TextField(null=True)
    #: The arguments before each correction, one on each line.
    old_arguments = models.TextField(null=True)

    objects = JobManager()

    class Meta:
        verbose_name = "task"
        permissions = (
            ("retry_job", "Can retry failed, cancelled and expired tasks"),
            ("edit_job", "Can retry tasks with other arguments"),
            ("run_job", "Can run scheduled and blocked tasks now"),
            ("cancel_job", "Can cancel tasks"),
            ("discard_job", "Can discard tasks"),
            ("inspect_job", "Can read the stacks of running tasks"),
        )
        indexes = (
            models.Index(fields=["finished_at"], name="sq_job_finished", condition=models.Q(finished_at__isnull=False)),
        )

    def __str__(self) -> str:
        return f"{self.task_path} {self.id}"

    @classmethod
    def check(cls, **kwargs: Any) -> list[CheckMessage]:
        return without_partial_index_warning(super().check(**kwargs))
