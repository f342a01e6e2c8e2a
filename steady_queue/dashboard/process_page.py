"""The processes: supervisors and their children, what they run and how they are; stop them gently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.dashboard.page import PageAdmin
from steady_queue.dashboard.text import show_line
from steady_queue.monitoring.process_jobs import read_running
from steady_queue.monitoring.process_list import each_process, read_processes

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


class ProcessPage(PageAdmin):
    title = "Processes"
    views = (("<str:process_id>/", "change", "show_process"),)

    def show_list(self, request: HttpRequest) -> HttpResponse:
        return self.render(request, "processes.html", self.title, processes=read_processes())

    def show_process(self, request: HttpRequest, process_id: str) -> HttpResponse:
        rows = {str(row.id): row for row in each_process(read_processes())}
        process = rows.get(process_id)
        if process is None:
            text = f"There is no process {show_line(process_id)}: it has stopped, or was pruned."
            return self.redirect_with(request, text, self.url_of("process_changelist"))
        return self.render(
            request,
            "process.html",
            f"Process {show_line(process.name)}",
            process=process,
            supervisor=rows.get(str(process.supervisor_id)),
            running=read_running(process.id),
            list_url=self.url_of("process_changelist"),
        )
