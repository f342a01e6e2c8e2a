"""Rows that only jobs with an expiry or a requested cancellation have.

They are tables of their own, so that the other jobs pay nothing: neither a column in an index nor a statement.
"""

from __future__ import annotations

from django.db import models

from steady_queue.models.fields import MomentField


class Expiry(models.Model):
    """When a job expires. Maintenance reads the table in the order of the times, and deletes what has passed."""

    job_id = models.UUIDField(primary_key=True, editable=False)
    expires_at = MomentField()

    class Meta:
        verbose_name_plural = "expiries"
        indexes = (models.Index(fields=["expires_at"], name="sq_expiry"),)


class Cancellation(models.Model):
    """A running job that is to be cancelled. The process that runs it reads the row; the end of the job deletes it."""

    job_id = models.UUIDField(primary_key=True, editable=False)
    requested_at = MomentField()
    requested_by = models.TextField()
    reason = models.TextField()
