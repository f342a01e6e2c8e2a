"""The queues: how many tasks wait, for how long and for whom; pause, resume and clear them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages

from steady_queue import actions
from steady_queue.dashboard import audit, queue_clearing, url_parts
from steady_queue.dashboard.chart_period import PERIODS, read_period, read_points
from steady_queue.dashboard.page import PageAdmin
from steady_queue.dashboard.refusals import check_name
from steady_queue.models.pages import Queue
from steady_queue.monitoring.json_values import queues_as_json
from steady_queue.monitoring.queue_list import MAX_QUEUES, read_queue, read_queues
from steady_queue.monitoring.states import JobState
from steady_queue.monitoring.statistics import read_now
from steady_queue.monitoring.text import show_line
from steady_queue.store.names import NAME_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

#: The states whose lists the page of a queue links to.
_LINKED_STATES = (JobState.READY, JobState.RUNNING, JobState.FAILED, JobState.SCHEDULED, JobState.BLOCKED)


class QueuePage(PageAdmin):
    title = "Queues"
    views = (
        ("json/", "json", "show_json"),
        ("<str:part>/", "change", "show_queue"),
        ("<str:part>/clear/", "clear", "clear"),
    )
    changes = (("<str:part>/pause/", "pause", "pause"), ("<str:part>/resume/", "resume", "resume"))

    def show_list(self, request: HttpRequest) -> HttpResponse:
        queues = read_queues()
        return self.render(
            request,
            "queues.html",
            self.title,
            queues=queues,
            is_complete=len(queues) < MAX_QUEUES,
            may_pause=self.may(request, "pause_queue"),
            json_url=self.url_of("queue_json"),
        )

    def show_json(self, request: HttpRequest) -> HttpResponse:
        """Depth and age of each queue for other programs, such as autoscalers."""
        return self.render_json(_read_json)

    def show_queue(self, request: HttpRequest, part: str) -> HttpResponse:
        name = _read_name(part)
        queue = read_queue(name)
        if queue is None:
            return self._redirect_unknown(request, name)
        period = read_period(request)
        return self.render(
            request,
            "queue.html",
            f"Queue {show_line(name)}",
            queue=queue,
            period=period,
            periods=PERIODS,
            points=read_points(period, queue.hour, queue=name),
            states=[str(state) for state in _LINKED_STATES],
            may_pause=self.may(request, "pause_queue"),
            may_clear=self.may(request, "clear_queue"),
            list_url=self.url_of("queue_changelist"),
        )

    # -- changes ------------------------------------------------------------------------------------------------------

    def pause(self, request: HttpRequest, part: str) -> HttpResponse:
        self.require(request, "pause_queue")
        return self._change(request, _read_name(part), actions.pause, "paused")

    def resume(self, request: HttpRequest, part: str) -> HttpResponse:
        self.require(request, "pause_queue")
        return self._change(request, _read_name(part), actions.resume, "resumed")

    def clear(self, request: HttpRequest, part: str) -> HttpResponse:
        """Ask how many tasks shall be deleted, and delete them after a POST."""
        self.require(request, "clear_queue")
        name = _read_name(part)
        if request.method == "POST" and queue_clearing.is_confirmed(request):
            return queue_clearing.clear(self, request, name)
        queue = read_queue(name)
        if queue is None:
            return self._redirect_unknown(request, name)
        return queue_clearing.ask(self, request, queue)

    def _change(self, request: HttpRequest, name: str, change: Callable[[str], bool], done: str) -> HttpResponse:
        is_from_list = request.POST.get("next") == "list"
        url = self.url_of("queue_changelist") if is_from_list else self._url_of_queue(name)
        reason = audit.read_reason(request)
        try:
            changed = change(name)
        except ValueError as error:
            return self.redirect_with(request, f"Nothing was changed: {error}", self.url_of("queue_changelist"))
        if not changed:
            was = "was already paused" if done == "paused" else "was not paused"
            return self.redirect_with(request, f"The queue {show_line(name)} {was}.", url, messages.INFO)
        audit.record(request, Queue, name, name, audit.with_reason(f"{done.capitalize()}.", reason))
        return self.redirect_with(request, f"The queue {show_line(name)} is {done}.", url, messages.SUCCESS)

    def _url_of_queue(self, name: str) -> str:
        return self.url_of("queue_change", url_parts.encode(name))

    def _redirect_unknown(self, request: HttpRequest, name: str) -> HttpResponse:
        text = f"The queue {show_line(name)} is not known: it has no ready tasks, is not paused, and ran none lately."
        return self.redirect_with(request, text, self.url_of("queue_changelist"))


def _read_name(part: str) -> str:
    return check_name("queue", url_parts.decode(part), NAME_LENGTH)


def _read_json() -> dict[str, Any]:
    now = read_now()
    return queues_as_json(now, read_queues(now))
