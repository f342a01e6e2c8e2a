"""The processes: supervisors and their children, what they run and how they are; stop them gently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages

import steady_queue
from steady_queue import actions
from steady_queue.dashboard import audit
from steady_queue.dashboard.page import PageAdmin
from steady_queue.errors import UnknownProcess
from steady_queue.models import Process
from steady_queue.monitoring.process_jobs import read_running
from steady_queue.monitoring.process_list import each_process, read_processes
from steady_queue.monitoring.text import show_line, show_seconds

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from steady_queue.monitoring.process_list import ProcessRow


class ProcessPage(PageAdmin):
    title = "Processes"
    views = (("<str:process_id>/", "change", "show_process"), ("<str:process_id>/stop/", "stop", "stop"))

    def show_list(self, request: HttpRequest) -> HttpResponse:
        return self.render(request, "processes.html", self.title, processes=read_processes())

    def show_process(self, request: HttpRequest, process_id: str) -> HttpResponse:
        rows = _read_by_id()
        process = rows.get(process_id)
        if process is None:
            return self._redirect_unknown(request, process_id)
        return self.render(
            request,
            "process.html",
            f"Process {show_line(process.name)}",
            process=process,
            supervisor=rows.get(str(process.supervisor_id)),
            running=read_running(process.id),
            may_stop=self.may(request, "stop_process"),
            list_url=self.url_of("process_changelist"),
        )

    def stop(self, request: HttpRequest, process_id: str) -> HttpResponse:
        """Say what stopping this process means, and ask it to stop after a POST."""
        self.require(request, "stop_process")
        process = _read_by_id().get(process_id)
        if process is None:
            return self._redirect_unknown(request, process_id)
        if problem := process.explain_dead():
            text = f"The process {show_line(process.name)} {problem}: it was not asked to stop."
            return self.redirect_with(request, text, self.url_of("process_change", process.id), messages.WARNING)
        if request.method == "POST":
            return self._stop(request, process)
        return self.render(
            request,
            "process_stop.html",
            f"Stop process {show_line(process.name)}?",
            process=process,
            timeout_seconds=_timeout_seconds(),
            process_url=self.url_of("process_change", process.id),
            list_url=self.url_of("process_changelist"),
        )

    def _stop(self, request: HttpRequest, process: ProcessRow) -> HttpResponse:
        reason = audit.read_reason(request)
        try:
            actions.stop_process(process.id, by=request.user.get_username())
        except UnknownProcess:
            return self._redirect_unknown(request, str(process.id))
        audit.record(request, Process, process.id, process.name, audit.with_reason("Asked to stop.", reason))
        timeout = show_seconds(_timeout_seconds())
        text = (
            f"The process {show_line(process.name)} is asked to stop."
            f" Its running tasks have {timeout} to finish, then they are interrupted."
        )
        return self.redirect_with(request, text, self.url_of("process_change", process.id), messages.SUCCESS)

    def _redirect_unknown(self, request: HttpRequest, process_id: str) -> HttpResponse:
        text = f"There is no process {show_line(process_id)}: it has stopped, or was pruned."
        return self.redirect_with(request, text, self.url_of("process_changelist"))


def _read_by_id() -> dict[str, ProcessRow]:
    return {str(row.id): row for row in each_process(read_processes())}


def _timeout_seconds() -> float:
    return steady_queue.shutdown_timeout.total_seconds()
