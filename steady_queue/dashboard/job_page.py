"""The page of one task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.monitoring.job_rows import load_rows

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

    from steady_queue.dashboard.page import PageAdmin


def show(page: PageAdmin, request: HttpRequest, job_id: UUID) -> HttpResponse:
    rows = load_rows([job_id])
    if not rows:
        return page.redirect_with(request, f"There is no task {job_id}.", page.url_of("job_changelist"))
    return page.render(request, "job.html", rows[0].task_path, row=rows[0])
