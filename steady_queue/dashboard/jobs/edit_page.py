"""The page on which a failed task gets other arguments before it is retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages

from steady_queue import actions
from steady_queue.actions.outcomes import describe_state
from steady_queue.dashboard import audit
from steady_queue.dashboard.argument_form import build_form, describe_error, read_form
from steady_queue.dashboard.jobs.changes import CHANGES
from steady_queue.dashboard.refusals import Refused
from steady_queue.db.aliases import queue_alias
from steady_queue.errors import JobIsRunning, StoreError
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.models.job import Job
from steady_queue.monitoring.jobs.current_state import read_states

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

    from steady_queue.dashboard.page import PageAdmin
    from steady_queue.monitoring.states import JobState


def edit(page: PageAdmin, request: HttpRequest, job_id: UUID) -> HttpResponse:
    """Show the form, or retry the task with the arguments that were sent."""
    page.require(request, "edit_job")
    job = Job.objects.using(queue_alias()).filter(id=job_id).only("task_path", "arguments").first()
    if job is None:
        return page.redirect_with(request, f"There is no task {job_id}.", page.url_of("job_changelist"))
    if request.method != "POST":
        state = read_states([job_id]).get(job_id)
        return _show(page, request, job) if state in CHANGES["retry"].states else _refuse(page, request, job, state)
    try:
        reason = audit.read_reason(request)
        is_retried = actions.retry(job_id, arguments=read_form(job.arguments, job.task_path, *_sent(request)))
    except (JobIsRunning, TaskResultDoesNotExist):
        is_retried = False
    except Refused as refusal:
        return _show(page, request, job, str(refusal))
    except StoreError:
        raise
    except Exception as error:  # the key of a limit is computed by code of the project
        text = describe_error(error, job.arguments, job.task_path)
        return _show(page, request, job, f"The task was not retried: {text}.")
    return _redirect(page, request, job, reason, is_retried=is_retried)


def _sent(request: HttpRequest) -> tuple[str, str, str]:
    return request.POST.get("args", ""), request.POST.get("kwargs", ""), request.POST.get("version", "")


def _show(page: PageAdmin, request: HttpRequest, job: Job, problem: str = "") -> HttpResponse:
    """Show the form, after an error with what was sent."""
    form = build_form(job.arguments, job.task_path)
    if request.method == "POST":
        args, kwargs, version = _sent(request)
        form = form._replace(args=args, kwargs=kwargs, version=version)
    return page.render(
        request,
        "job_edit.html",
        "Retry with other arguments",
        form=form,
        problem=problem,
        task_path=job.task_path,
        reason=audit.written_reason(request),
        edit_url=page.url_of("job_edit", job.pk),
        back_url=page.url_of("job_change", job.pk),
    )


def _redirect(page: PageAdmin, request: HttpRequest, job: Job, reason: str, *, is_retried: bool) -> HttpResponse:
    if not is_retried:
        return _refuse(page, request, job, read_states([job.pk]).get(job.pk))
    audit.record(request, Job, job.pk, str(job), audit.with_reason("Retry with other arguments.", reason))
    url = page.url_of("job_change", job.pk)
    return page.redirect_with(request, f"The task {job.pk} was retried with other arguments.", url, messages.SUCCESS)


def _refuse(page: PageAdmin, request: HttpRequest, job: Job, state: JobState | None) -> HttpResponse:
    message = f"The task {job.pk} cannot be retried: it {describe_state(state)}."
    url = page.url_of("job_changelist") if state is None else page.url_of("job_change", job.pk)
    return page.redirect_with(request, message, url, messages.WARNING)
