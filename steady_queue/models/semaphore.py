from __future__ import annotations

from django.db import models

from steady_queue.models.fields import KEY_LENGTH, MomentField, NameField


class Semaphore(models.Model):
    """One taken concurrency slot. It exists as long as its job has a ready or claimed row.

    The lock of its key keeps two jobs from taking the same slot. A unique constraint would only add waits: InnoDB locks
    the row of the neighbouring key while it checks a number that was just freed.
    """

    job = models.OneToOneField(
        "steady_queue.Job", on_delete=models.CASCADE, primary_key=True, db_constraint=False, related_name="semaphore"
    )
    concurrency_key = NameField(max_length=KEY_LENGTH)
    slot = models.IntegerField()
    acquired_at = MomentField()

    class Meta:
        indexes = (models.Index(fields=["concurrency_key", "slot"], name="sq_semaphore_slot"),)

    def __str__(self) -> str:
        return f"{self.concurrency_key} #{self.slot}"


class LockBucket(models.Model):
    """What promotions lock where the server has no advisory locks: one row for each lock id."""

    id = models.SmallIntegerField(primary_key=True)
