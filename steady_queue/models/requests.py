from __future__ import annotations

from django.db import models

from steady_queue.models.fields import MomentField
from steady_queue.store.job import RequestKind

REQUEST_KINDS = [(kind.value, kind.name.lower()) for kind in RequestKind]


class ProcessRequest(models.Model):
    """What a process is asked to do. The process reads the row and writes its reply into it. Maintenance deletes it."""

    id = models.UUIDField(primary_key=True, editable=False)
    process_id = models.UUIDField()
    kind = models.SmallIntegerField(choices=REQUEST_KINDS)
    #: The running job whose stack is wanted.
    job_id = models.UUIDField(null=True)
    requested_at = MomentField()
    requested_by = models.TextField()
    #: JSON object.
    reply = models.TextField(null=True)
    replied_at = MomentField(null=True)

    def __str__(self) -> str:
        return f"{RequestKind(self.kind).name.lower()} {self.process_id}"
