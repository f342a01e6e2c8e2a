"""The admin's log: who changed what with the dashboard, when, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType

if TYPE_CHECKING:
    from django.db.models import Model
    from django.http import HttpRequest

#: Characters of the label, as many as LogEntry stores.
LABEL_LENGTH = 200


#: Characters of a reason that are kept.
REASON_LENGTH = 500


def reason_in(request: HttpRequest) -> str:
    """The reason that the user has written into the form, as an end of a message of the log; empty without one."""
    reason = request.POST.get("reason", "").strip()[:REASON_LENGTH]
    return f" Reason: {reason}" if reason else ""


def record(request: HttpRequest, model: type[Model], object_id: object, label: str, message: str) -> None:
    """Write that the user has changed something, such as "Retried." or "Paused. Reason: the provider is down"."""
    LogEntry.objects.create(
        user_id=request.user.pk,
        content_type=ContentType.objects.get_for_model(model, for_concrete_model=False),
        object_id=str(object_id),
        object_repr=label[:LABEL_LENGTH],
        action_flag=CHANGE,
        change_message=message.replace("\x00", ""),
    )
