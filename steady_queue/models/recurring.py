from __future__ import annotations

from django.db import models

from steady_queue.models.fields import NAME_LENGTH, MomentField, NameField


class RecurringTask(models.Model):
    """A schedule: from a decorator (static) or added at run time (dynamic)."""

    key = NameField(max_length=NAME_LENGTH, primary_key=True, db_column="task_key")
    task_path = NameField(max_length=NAME_LENGTH)
    schedule = models.CharField(max_length=NAME_LENGTH)
    time_zone = models.CharField(max_length=64, null=True)
    catch_up = models.CharField(max_length=16, db_default="none")
    arguments = models.TextField()
    queue_name = NameField(max_length=NAME_LENGTH, null=True)
    priority = models.SmallIntegerField(null=True)
    #: Whether a tick is left out while the job of an earlier tick waits or runs.
    skip_if_unfinished = models.BooleanField(db_default=False)
    description = models.TextField(db_default="")
    static = models.BooleanField(db_default=False)
    enabled = models.BooleanField(db_default=True)
    disabled_reason = models.TextField(null=True)
    last_run_at = MomentField(null=True)
    created_at = MomentField()
    updated_at = MomentField()
    #: Since when its ticks count, if not since its last change: a change of other columns loses no tick.
    counts_from = MomentField(null=True)

    class Meta:
        permissions = (
            ("run_recurringtask", "Can run recurring tasks now"),
            ("enable_recurringtask", "Can enable and disable recurring tasks"),
        )

    def __str__(self) -> str:
        return str(self.key)


class RecurringExecution(models.Model):
    """A tick that was enqueued: unique, so that racing schedulers enqueue it once."""

    job_id = models.UUIDField(primary_key=True, editable=False)
    task_key = NameField(max_length=NAME_LENGTH)
    run_at = MomentField()
    created_at = MomentField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["task_key", "run_at"], name="sq_recurring_tick"),)

    def __str__(self) -> str:
        return f"{self.task_key} at {self.run_at}"
