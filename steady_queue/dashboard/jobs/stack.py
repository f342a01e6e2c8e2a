"""The stack of a running task: asked of its process, which replies after a moment."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from django.contrib import messages
from django.http import HttpResponseRedirect

from steady_queue import actions
from steady_queue.actions import process_requests
from steady_queue.dashboard import audit
from steady_queue.db.aliases import queue_alias
from steady_queue.db.transactions import run
from steady_queue.errors import JobIsNotRunning, UnknownRequest
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.models.executions import ClaimedExecution
from steady_queue.models.job import Job
from steady_queue.monitoring.process_list import explain_dead_process

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

    from steady_queue.actions import ProcessReply
    from steady_queue.dashboard.page import PageAdmin

#: A process that works replies within this time.
USUAL_REPLY = timedelta(seconds=10)


class Stack(NamedTuple):
    """A request for a stack, and its reply as soon as there is one."""

    reply: ProcessReply | None
    asked_at: datetime | None = None
    #: Whether a process that works would have replied.
    is_overdue: bool = False
    problem: str = ""

    @property
    def text(self) -> str:
        return "\n".join(self.reply.stack) if self.reply else ""


_GONE = Stack(None, problem="The reply is no longer stored. Ask again.")


def ask(page: PageAdmin, request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Ask the process of a task for its stack, and redirect to the page that shows the reply."""
    page.require(request, "inspect_job")
    url = page.url_of("job_change", job_id)
    claims = ClaimedExecution.objects.using(queue_alias()).filter(job_id=job_id)
    process_id = claims.values_list("process_id", flat=True).first()
    if process_id is not None and (problem := explain_dead_process(process_id)):
        text = f"The process of the task {problem}: it was not asked for the stack."
        return page.redirect_with(request, text, url, messages.WARNING)
    try:
        request_id = actions.request_stack(job_id, by=request.user.get_username())
    except TaskResultDoesNotExist:
        return page.redirect_with(request, f"There is no task {job_id}.", page.url_of("job_changelist"))
    except JobIsNotRunning:
        return page.redirect_with(request, "The task is not running any more.", url, messages.WARNING)
    audit.record(request, Job, job_id, f"Task {job_id}", "Stack: its process was asked for it.")
    return HttpResponseRedirect(f"{url}?stack={request_id}")


def read(page: PageAdmin, request: HttpRequest, job_id: UUID) -> Stack | None:
    """Return the stack that was asked for; None if none was."""
    request_id = request.GET.get("stack", "")
    if not request_id or not page.may(request, "inspect_job"):
        return None
    try:
        sent = run(process_requests.read_request(request_id))
    except UnknownRequest:
        return _GONE
    if sent.job_id != job_id:
        return _GONE
    return Stack(sent.reply, sent.requested_at, is_overdue=sent.now - sent.requested_at > USUAL_REPLY)
