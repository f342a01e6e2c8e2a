from __future__ import annotations

from django.db import models

from steady_queue.models.fields import NAME_LENGTH, MomentField, NameField


class TaskStatistics(models.Model):
    """What one process did with the tasks of one path and queue, in one minute; or what all did in one hour.

    A process writes the sums of its minute again with each heartbeat, so that a write whose reply was lost changes
    nothing when it is repeated. Maintenance adds the minutes of all processes up to hours, which have no process.
    """

    id = models.BigAutoField(primary_key=True)
    #: 60 or 3,600.
    seconds = models.SmallIntegerField()
    starts_at = MomentField()
    #: Of a minute, its process; of an hour, the nil UUID.
    process_id = models.UUIDField()
    queue_name = NameField(max_length=NAME_LENGTH)
    task_path = NameField(max_length=NAME_LENGTH)
    #: Attempts that began and attempts that ended: with success, with a failure, or to be followed by another one.
    started = models.IntegerField()
    finished = models.IntegerField()
    failed = models.IntegerField()
    retried = models.IntegerField()
    #: How long the ended attempts took, in milliseconds; without those that were released or snoozed.
    run_milliseconds = models.BigIntegerField()
    longest_run_milliseconds = models.BigIntegerField()
    #: Tasks that were claimed for their first attempt, and how long they had waited since they were due, in
    #: milliseconds. When a later attempt was due is not stored.
    waits = models.IntegerField()
    wait_milliseconds = models.BigIntegerField()
    longest_wait_milliseconds = models.BigIntegerField()

    class Meta:
        verbose_name_plural = "task statistics"
        constraints = (
            models.UniqueConstraint(
                fields=["seconds", "starts_at", "process_id", "queue_name", "task_path"], name="sq_statistics"
            ),
        )

    def __str__(self) -> str:
        return f"{self.task_path} at {self.starts_at}"
