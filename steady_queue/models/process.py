from __future__ import annotations

from django.db import models

from steady_queue.models.fields import NAME_LENGTH, MomentField, NameField


class Process(models.Model):
    """One operating system process of Steady Queue, alive as long as its heartbeat is recent."""

    id = models.UUIDField(primary_key=True, editable=False)
    kind = models.CharField(max_length=32)
    name = models.CharField(max_length=NAME_LENGTH)
    pid = models.BigIntegerField()
    hostname = models.TextField()
    supervisor_id = models.UUIDField(null=True)
    #: JSON: its actors, and what identifies the operating system process (boot, PID namespace, start time).
    metadata = models.TextField()
    started_at = MomentField()
    last_heartbeat_at = MomentField()
    #: When it last polled with success, as of its last heartbeat.
    polled_at = MomentField(null=True)
    #: JSON object, as of its last heartbeat: the use of its lanes, its memory and the lag of its event loop.
    measurements = models.TextField(null=True)

    class Meta:
        verbose_name_plural = "processes"
        permissions = (("stop_process", "Can stop processes"),)

    def __str__(self) -> str:
        return self.name


class Pause(models.Model):
    """A paused queue: nothing is claimed from it."""

    queue_name = NameField(max_length=NAME_LENGTH, primary_key=True)
    created_at = MomentField()

    def __str__(self) -> str:
        return str(self.queue_name)
