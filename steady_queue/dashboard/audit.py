"""The admin's log: who changed what with the dashboard, when, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType

from steady_queue.actions.cancellation import TEXT_LENGTH
from steady_queue.dashboard.refusals import Refused
from steady_queue.store.names import explain_unstorable

if TYPE_CHECKING:
    from django.db.models import Model
    from django.http import HttpRequest

#: Characters of the label, as many as LogEntry stores.
LABEL_LENGTH = 200
#: Characters of a reason, as many as a cancellation stores.
REASON_LENGTH = TEXT_LENGTH


def read_reason(request: HttpRequest) -> str:
    """The reason that the user has written into the form; empty without one. Raises Refused if it cannot be stored.

    To be called before anything is changed.
    """
    reason = written_reason(request)
    if problem := explain_unstorable(reason, REASON_LENGTH):
        raise Refused(f"Nothing was changed: the reason {problem}.")
    return reason


def written_reason(request: HttpRequest) -> str:
    """The same as it was written, for a form that is shown again."""
    return request.POST.get("reason", "").strip()


def with_reason(message: str, reason: str) -> str:
    """A message of the log, with the reason if there is one."""
    return f"{message} Reason: {reason}" if reason else message


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
