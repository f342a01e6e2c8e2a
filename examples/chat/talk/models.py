from __future__ import annotations

from django.db import models


class Answer(models.Model):
    """An answer, possibly incomplete. Its id is the id of its task's result, so the page needs only one id."""

    id = models.UUIDField(primary_key=True)
    prompt = models.TextField()
    text = models.TextField(default="")
    tokens = models.PositiveIntegerField(default=0)
    is_complete = models.BooleanField(default=False)
    begun_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"answer to {self.prompt[:40]!r}"
