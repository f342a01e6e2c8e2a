"""Recurring tasks: the list, the page of each with its history, and the load of the coming day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django.http import HttpResponseRedirect

from steady_queue.dashboard import url_parts
from steady_queue.dashboard.charts import draw_counts
from steady_queue.dashboard.page import PageAdmin
from steady_queue.monitoring.jobs.argument_text import describe_arguments
from steady_queue.monitoring.recurring.calendar import MAX_RUNS_OF_SCHEDULE, read_calendar
from steady_queue.monitoring.recurring.tasks import find_recurring, read_history, read_recurring
from steady_queue.monitoring.text import show_line
from steady_queue.monitoring.times import parse_time

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from steady_queue.monitoring.recurring.tasks import RecurringRow, RecurringRun

#: Runs that the page of a recurring task shows, and tasks that are named for each hour of the calendar.
SHOWN_RUNS, SHOWN_TASKS = 10, 8
#: The rights of a user, by the names that the templates use.
_PERMISSIONS = {
    "run": "run_recurringtask",
    "switch": "enable_recurringtask",
    "add": "add_recurringtask",
    "change": "change_recurringtask",
    "delete": "delete_recurringtask",
}


class RecurringPage(PageAdmin):
    """Keys are in the query or the form, not in the path of a URL: they may have any characters."""

    title = "Recurring tasks"
    views: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("task/", "detail", "show_task"),
        ("history/", "history", "show_history"),
        ("calendar/", "calendar", "show_calendar"),
        # The admin's log and other pages link to this URL.
        ("<path:object_id>/change/", "change", "redirect_to_task"),
    )

    # -- pages --------------------------------------------------------------------------------------------------------

    def show_list(self, request: HttpRequest) -> HttpResponse:
        if "key" in request.GET:  # a link from another page
            return self.show_task(request)
        page = read_recurring(request.GET.get("after", ""))
        return self.show(
            request,
            "recurring_list.html",
            self.title,
            rows=[self.describe(row) for row in page.rows],
            after=request.GET.get("after", ""),
            first_url=self.url_of("recurringtask_changelist"),
            next_url=page.next_key is not None and f"?{urlencode({'after': page.next_key})}",
        )

    def show_task(self, request: HttpRequest) -> HttpResponse:
        row = self.find(request)
        if row is None:
            return self.say_unknown(request)
        runs = read_history(row.key, size=SHOWN_RUNS)
        return self.show(
            request,
            "recurring_task.html",
            f"Recurring task {show_line(row.key)}",
            **self.describe(row),
            arguments=describe_arguments(row.arguments, row.task_path),
            runs=[self.describe_run(run) for run in runs.rows],
            history_url=runs.next_before is not None and self.link("history", row.key),
        )

    def show_history(self, request: HttpRequest) -> HttpResponse:
        row = self.find(request)
        if row is None:
            return self.say_unknown(request)
        runs = read_history(row.key, parse_time(request.GET.get("before")))
        before = runs.next_before
        return self.show(
            request,
            "recurring_history.html",
            f"Runs of {show_line(row.key)}",
            **self.describe(row),
            runs=[self.describe_run(run) for run in runs.rows],
            first_url=self.link("history", row.key),
            next_url=before is not None and self.link("history", row.key, before=before.isoformat()),
            is_first="before" not in request.GET,
        )

    def show_calendar(self, request: HttpRequest) -> HttpResponse:
        calendar = read_calendar()
        times = [f"{hour.starts_at:%H:%M}" for hour in calendar.hours]
        busiest = max(calendar.hours, key=lambda hour: hour.runs)
        text = f"{calendar.runs:,} runs"
        if busiest.runs:
            text += f"; at most {busiest.runs:,} in an hour, from {busiest.starts_at:%H:%M} on"
        return self.show(
            request,
            "recurring_calendar.html",
            "The coming day",
            calendar=calendar,
            chart=draw_counts("Runs in each hour", [hour.runs for hour in calendar.hours], times, f"{text}."),
            hours=[
                {
                    "hour": hour,
                    "time": f"{hour.starts_at:%a %H:%M %Z}",
                    "tasks": [(key, self.link("detail", key), runs) for key, runs in hour.tasks[:SHOWN_TASKS]],
                    "more": max(len(hour.tasks) - SHOWN_TASKS, 0),
                }
                for hour in calendar.hours
            ],
            counted_runs=f"{MAX_RUNS_OF_SCHEDULE:,}",
            cut=[(key, self.link("detail", key)) for key in calendar.cut[:SHOWN_TASKS]],
            cut_more=max(len(calendar.cut) - SHOWN_TASKS, 0),
        )

    def redirect_to_task(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(self.link("detail", url_parts.decode(object_id)))

    # -- parts --------------------------------------------------------------------------------------------------------

    def show(self, request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
        """Render a page, with the rights of the user and the URLs of the other views."""
        can = {name: self.may(request, permission) for name, permission in _PERMISSIONS.items()}
        names = ("changelist", "calendar", "add", "run", "switch")
        urls = {name: self.url_of(f"recurringtask_{name}") for name in names}
        return self.render(request, template, title, can=can, urls=urls, **context)

    def describe(self, row: RecurringRow) -> dict[str, Any]:
        """A recurring task as the templates show it."""
        return {
            "row": row,
            "url": self.link("detail", row.key),
            "edit_url": self.link("edit", row.key),
            "delete_url": self.link("delete", row.key),
            "last_run": None if row.last_run is None else self.describe_run(row.last_run),
            "next_runs": [(at, show_time(at)) for at in row.next_runs],
        }

    def describe_run(self, run: RecurringRun) -> dict[str, Any]:
        return {"run": run, "url": self.url_of("job_change", run.job_id) if run.state else ""}

    def link(self, view: str, key: str, **query: str) -> str:
        return f"{self.url_of(f'recurringtask_{view}')}?{urlencode({'key': key, **query})}"

    def find(self, request: HttpRequest) -> RecurringRow | None:
        """The recurring task whose key the request has."""
        return find_recurring(request.POST.get("key", "") or request.GET.get("key", ""))

    def say_unknown(self, request: HttpRequest) -> HttpResponse:
        key = show_line(request.POST.get("key", "") or request.GET.get("key", ""))
        message = f"There is no recurring task with the key {key!r}; it may have been deleted."
        return self.redirect_with(request, message, self.url_of("recurringtask_changelist"))


def show_time(at: datetime) -> str:
    """A time in its own time zone."""
    return f"{at:%a %Y-%m-%d %H:%M:%S %Z}"
