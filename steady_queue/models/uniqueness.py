from __future__ import annotations

from django.db import models

from steady_queue.models.fields import KEY_LENGTH, MomentField, NameField
from steady_queue.store.job import Until

UNTIL = [(until.value, until.name.lower()) for until in Until]


class UniqueKey(models.Model):
    """A unique key that is taken. The primary key decides which of two jobs gets it."""

    key = NameField(db_column="unique_key", max_length=KEY_LENGTH, primary_key=True)
    job_id = models.UUIDField()
    #: Until when the job holds it: until it has started, or until it has ended.
    until = models.SmallIntegerField(choices=UNTIL)
    #: The key is taken at least until then, even if the job has ended.
    held_until = MomentField(null=True)

    class Meta:
        indexes = (models.Index(fields=["job_id"], name="sq_unique_by_job"),)

    def __str__(self) -> str:
        return str(self.key)
