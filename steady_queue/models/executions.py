"""Where a job stands. Each table carries only what its own query needs; the rest is read from the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from steady_queue.models.fields import KEY_LENGTH, NAME_LENGTH, NameField
from steady_queue.models.job import LANES, Job, without_partial_index_warning

if TYPE_CHECKING:
    from django.core.checks import CheckMessage

#: No priority is lower.
LOWEST = -32768


def its_job(related_name: str) -> models.OneToOneField[Job, Job]:
    """The job as primary key, without a constraint in the database: those were measured to halve the rate."""
    return models.OneToOneField(
        Job, on_delete=models.CASCADE, primary_key=True, db_constraint=False, related_name=related_name
    )


class ReadyExecution(models.Model):
    """May be claimed now. Both indexes are the order in which workers poll.

    The condition of the second is always true. It keeps the planner from using that index for the poll of one queue,
    which does not state it, when it knows nothing of the table yet: the plan would read all the other queues.
    """

    job = its_job("ready_execution")
    queue_name = NameField(max_length=NAME_LENGTH)
    lane = models.SmallIntegerField(choices=LANES)
    priority = models.SmallIntegerField()

    class Meta:
        verbose_name = "ready task"
        indexes = (
            models.Index(fields=["queue_name", "lane", "-priority", "job"], name="sq_ready_by_queue"),
            models.Index(
                fields=["lane", "-priority", "job"], name="sq_ready_all", condition=models.Q(priority__gte=LOWEST)
            ),
        )

    @classmethod
    def check(cls, **kwargs: Any) -> list[CheckMessage]:
        return without_partial_index_warning(super().check(**kwargs))


class ScheduledExecution(models.Model):
    """Becomes ready, or blocked, at its time."""

    job = its_job("scheduled_execution")
    scheduled_at = models.DateTimeField()
    priority = models.SmallIntegerField()

    class Meta:
        verbose_name = "scheduled task"
        indexes = (models.Index(fields=["scheduled_at", "-priority", "job"], name="sq_scheduled_due"),)


class BlockedExecution(models.Model):
    """Waits until its concurrency key has a free slot."""

    job = its_job("blocked_execution")
    concurrency_key = NameField(max_length=KEY_LENGTH)
    priority = models.SmallIntegerField()

    class Meta:
        verbose_name = "blocked task"
        indexes = (models.Index(fields=["concurrency_key", "-priority", "job"], name="sq_blocked_by_key"),)


class ClaimedExecution(models.Model):
    """Runs in a process. `claim_id` is new for each attempt: the fence that a late writer cannot pass.

    No index on the process: the table is as small as what runs now, and each claim would pay for it.
    """

    job = its_job("claimed_execution")
    claim_id = models.UUIDField()
    process_id = models.UUIDField()
    claimed_at = models.DateTimeField()

    class Meta:
        verbose_name = "task in progress"
        verbose_name_plural = "tasks in progress"


class FailedExecution(models.Model):
    """Ended badly, and is kept to be looked at, retried or discarded."""

    job = its_job("failed_execution")
    failed_at = models.DateTimeField()
    exception_class = models.TextField()
    message = models.TextField()

    class Meta:
        verbose_name = "failed task"
        indexes = (models.Index(fields=["failed_at"], name="sq_failed_at"),)
