"""The status of a job. Each table has only the columns that its own query needs; the others are read from the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from steady_queue.models.fields import KEY_LENGTH, NAME_LENGTH, MomentField, NameField
from steady_queue.models.job import LANES, Job, without_partial_index_warning
from steady_queue.store.job import FailureKind

if TYPE_CHECKING:
    from django.core.checks import CheckMessage

LOWEST_PRIORITY = -32768
FAILURE_KINDS = [(kind.value, kind.name.lower()) for kind in FailureKind]


def job_key(related_name: str) -> models.OneToOneField[Job, Job]:
    """The job as primary key, without a constraint in the database: constraints halve the rate (measured)."""
    return models.OneToOneField(
        Job, on_delete=models.CASCADE, primary_key=True, db_constraint=False, related_name=related_name
    )


class ReadyExecution(models.Model):
    """The job can be claimed. The indexes have the order in which workers poll.

    The condition of the second index is always true. It keeps the planner from using that index for the poll of one
    queue, which does not have the condition, when there are no statistics yet: the plan would read all other queues.
    """

    job = job_key("ready_execution")
    queue_name = NameField(max_length=NAME_LENGTH)
    lane = models.SmallIntegerField(choices=LANES)
    priority = models.SmallIntegerField()

    class Meta:
        verbose_name = "ready task"
        indexes = (
            models.Index(fields=["queue_name", "lane", "-priority", "job"], name="sq_ready_by_queue"),
            models.Index(
                fields=["lane", "-priority", "job"],
                name="sq_ready_all",
                condition=models.Q(priority__gte=LOWEST_PRIORITY),
            ),
        )

    @classmethod
    def check(cls, **kwargs: Any) -> list[CheckMessage]:
        return without_partial_index_warning(super().check(**kwargs))


class ScheduledExecution(models.Model):
    """The job becomes ready, or blocked, at its time."""

    job = job_key("scheduled_execution")
    scheduled_at = MomentField()
    priority = models.SmallIntegerField()

    class Meta:
        verbose_name = "scheduled task"
        indexes = (models.Index(fields=["scheduled_at", "-priority", "job"], name="sq_scheduled_due"),)


class BlockedExecution(models.Model):
    """The job waits until its concurrency key has a free slot."""

    job = job_key("blocked_execution")
    concurrency_key = NameField(max_length=KEY_LENGTH)
    priority = models.SmallIntegerField()

    class Meta:
        verbose_name = "blocked task"
        indexes = (models.Index(fields=["concurrency_key", "-priority", "job"], name="sq_blocked_by_key"),)


class ClaimedExecution(models.Model):
    """The job runs in a process. `claim_id` is new for each attempt: the fence against writes after the claim was lost.

    No index on the process: the table has only the running jobs, and every claim would have to update the index.
    """

    job = job_key("claimed_execution")
    claim_id = models.UUIDField()
    process_id = models.UUIDField()
    claimed_at = MomentField()

    class Meta:
        verbose_name = "task in progress"
        verbose_name_plural = "tasks in progress"


class FailedExecution(models.Model):
    """The job failed, and is kept until it is retried or discarded."""

    job = job_key("failed_execution")
    failed_at = MomentField()
    exception_class = models.TextField()
    message = models.TextField()
    #: Why it will not run again by itself.
    kind = models.SmallIntegerField(choices=FAILURE_KINDS, db_default=0)

    class Meta:
        verbose_name = "failed task"
        indexes = (
            models.Index(fields=["failed_at"], name="sq_failed_at"),
            models.Index(fields=["kind", "failed_at", "job"], name="sq_failed_by_kind"),
        )
