"""The page of one task: what it does, why it waits, its life, its arguments, and what people did with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType

from steady_queue.dashboard.jobs import stack as job_stack
from steady_queue.dashboard.jobs.changes import CHANGES
from steady_queue.dashboard.jobs.tracebacks import shorten
from steady_queue.models.job import Job
from steady_queue.monitoring.jobs.detail import find_detail
from steady_queue.monitoring.states import JobState
from steady_queue.monitoring.text import show_line

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

    from steady_queue.dashboard.page import PageAdmin
    from steady_queue.monitoring.jobs.detail import JobDetail
    from steady_queue.monitoring.jobs.timeline import TimelineEntry

#: Entries of the admin's log that are shown, the newest.
LOG_ENTRIES = 20


class TimelineItem(NamedTuple):
    """An entry of the timeline, and how it is shown."""

    entry: TimelineEntry
    #: How an attempt ended, or what happened.
    kind: str
    short_traceback: str


def show(page: PageAdmin, request: HttpRequest, job_id: UUID) -> HttpResponse:
    detail = find_detail(job_id)
    if detail is None:
        return page.redirect_with(request, f"There is no task {job_id}.", page.url_of("job_changelist"))
    return page.render(
        request,
        "job.html",
        show_line(detail.row.task_path),
        detail=detail,
        row=detail.row,
        is_running=detail.row.state is JobState.RUNNING,
        timeline=[_item(entry) for entry in detail.timeline],
        log_entries=_read_log(job_id),
        stack=job_stack.read(page, request, job_id),
        **_buttons(page, request, detail),
    )


def _buttons(page: PageAdmin, request: HttpRequest, detail: JobDetail) -> dict[str, Any]:
    """What the user may do with the task."""
    names = detail.actions
    return {
        "changes": [
            change for name, change in CHANGES.items() if name in names and page.may(request, change.permission)
        ],
        "may_edit": "edit" in names and page.may(request, "edit_job"),
        "may_inspect": "stack" in names and page.may(request, "inspect_job"),
        "action_url": page.url_of("job_action"),
        "edit_url": page.url_of("job_edit", detail.row.id),
        "stack_url": page.url_of("job_stack", detail.row.id),
    }


def _item(entry: TimelineEntry) -> TimelineItem:
    attempt = entry.attempt
    kind = entry.kind if attempt is None else attempt.ending
    short = shorten(attempt.traceback) if attempt is not None and attempt.traceback else ""
    return TimelineItem(entry, kind, short)


def _read_log(job_id: UUID) -> list[LogEntry]:
    """What was done with the task from the dashboard, the newest first."""
    of_jobs = ContentType.objects.get_for_model(Job, for_concrete_model=False)
    entries = LogEntry.objects.filter(content_type=of_jobs, object_id=str(job_id)).select_related("user")
    return list(entries.order_by("-action_time", "-id")[:LOG_ENTRIES])
