"""Lists of tasks by state, with filters, and the pages and actions below them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from steady_queue.dashboard.jobs import actions as job_actions
from steady_queue.dashboard.jobs import detail_page as job_page
from steady_queue.dashboard.jobs import edit_page as job_edit_page
from steady_queue.dashboard.jobs import stack as job_stack
from steady_queue.dashboard.jobs.changes import CHANGES
from steady_queue.dashboard.jobs.filters import build_fields, describe_filters
from steady_queue.dashboard.page import PageAdmin
from steady_queue.monitoring.jobs.counts_by_task import LOOKED_UP, count_tasks
from steady_queue.monitoring.jobs.listings import build_listing
from steady_queue.monitoring.jobs.pages import find_page
from steady_queue.monitoring.jobs.rows import JobRow
from steady_queue.monitoring.jobs.search import InvalidSearch, JobSearch
from steady_queue.monitoring.state_counts import read_state_counts
from steady_queue.monitoring.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django.http import HttpRequest, HttpResponse

    from steady_queue.dashboard.jobs.changes import JobChange
    from steady_queue.monitoring.counts import CappedCount
    from steady_queue.monitoring.jobs.listings import Listing

    JobView = Callable[[PageAdmin, HttpRequest, UUID], HttpResponse]

#: What the column with the time means, by state.
TIMES: Mapping[JobState | None, str] = {
    None: "When",
    JobState.RUNNING: "Running since",
    JobState.READY: "Enqueued",
    JobState.BLOCKED: "Enqueued",
    JobState.LATE: "Due",
    JobState.SCHEDULED: "Due",
    JobState.RETRYING: "Next attempt",
    JobState.FINISHED: "Finished",
    JobState.CANCELLED: "Cancelled",
    JobState.EXPIRED: "Expired",
}

#: Stands for the id of a task in a URL.
_ANY_ID = str(UUID(int=0))
_ROW_FIELDS = tuple(field.name for field in fields(JobRow))
#: The lists that begin with the newest task; the others begin with the one that is next, or has waited longest.
NEWEST_FIRST = frozenset({None, *JobState}) - {
    *(JobState.RUNNING, JobState.READY, JobState.BLOCKED),
    *(JobState.LATE, JobState.SCHEDULED, JobState.RETRYING),
}

#: Functions whose tasks are counted on a page.
SHOWN_TASKS = 20


class Tab(NamedTuple):
    """A link to the tasks of one state, with the same filters."""

    title: str
    query: str
    size: CappedCount | None
    is_current: bool


class TaskLink(NamedTuple):
    """A link to the tasks of one path in the list, with the other filters."""

    path: str
    query: str
    size: CappedCount


class JobListPage(PageAdmin):
    title = "Tasks"
    views = (
        ("<str:job_id>/", "change", "show_job"),
        ("<str:job_id>/edit/", "edit", "edit_job"),
    )
    changes = (("action/", "action", "act"), ("<str:job_id>/stack/", "stack", "ask_for_stack"))

    def show_list(self, request: HttpRequest) -> HttpResponse:
        try:
            search = JobSearch.from_query(request.GET)
        except InvalidSearch as error:
            return self.show_problem(request, job_actions.as_sentence(error))
        listing = build_listing(search)
        found = find_page(search, after=request.GET.get("after"), before=request.GET.get("until"), listing=listing)
        query = search.to_query()
        is_newest_first = search.state in NEWEST_FIRST
        return self.render(
            request,
            "job_list.html",
            self.title,
            **self.describe(request, search),
            query=urlencode(query),
            found=found,
            searched=f"{found.searched:,}",
            rows=self.describe_rows(request, found.rows),
            **({} if found.previous_cursor or is_costly(search, listing) else describe_tasks(search, listing)),
            time_title=TIMES.get(search.state, "Failed"),
            is_first=found.previous_cursor is None,
            previous_query=found.previous_cursor and urlencode({**query, "until": found.previous_cursor}),
            next_query=found.next_cursor and urlencode({**query, "after": found.next_cursor}),
            previous_title="Newer" if is_newest_first else "Previous",
            next_title="Search further" if not found.is_complete else "Older" if is_newest_first else "Next",
        )

    def describe(self, request: HttpRequest, search: JobSearch) -> dict[str, Any]:
        """The parts of the page that do not depend on what was found."""
        return {
            "search": search,
            # The counts are those of all tasks: with filters, they would not say how many match.
            "tabs": build_tabs(search, {} if describe_filters(search) else read_state_counts().states),
            "chips": describe_filters(search),
            "fields": build_fields(request.GET),
            "changes": self.allowed_changes(request, search.state),
            "list_url": self.url_of("job_changelist"),
            "action_url": self.url_of("job_action"),
        }

    def show_problem(self, request: HttpRequest, problem: str) -> HttpResponse:
        """Show the form again, with what is wrong in it."""
        context = self.describe(request, JobSearch())
        return self.render(request, "job_list.html", self.title, status=400, problem=problem, **context)

    def describe_rows(self, request: HttpRequest, rows: Sequence[JobRow]) -> list[dict[str, Any]]:
        """The rows with the URL of each, and the action that has a button there: the one that is wanted most often.

        As dictionaries, in which a template finds values faster than in objects, and with one URL and one check of
        permissions for each state: these took 2 ms of the 12 ms of a page (measured).
        """
        url = self.url_of("job_change", _ANY_ID)
        states = {row.state for row in rows}
        changes = {state: next(iter(self.allowed_changes(request, state)), None) for state in states}
        return [
            {
                **{name: getattr(row, name) for name in _ROW_FIELDS},
                "id": str(row.id),
                "url": url.replace(_ANY_ID, str(row.id)),
                "change": changes[row.state],
            }
            for row in rows
        ]

    def act(self, request: HttpRequest) -> HttpResponse:
        return job_actions.act(self, request)

    def show_job(self, request: HttpRequest, job_id: str) -> HttpResponse:
        return self.with_id(request, job_id, job_page.show)

    def edit_job(self, request: HttpRequest, job_id: str) -> HttpResponse:
        return self.with_id(request, job_id, job_edit_page.edit)

    def ask_for_stack(self, request: HttpRequest, job_id: str) -> HttpResponse:
        return self.with_id(request, job_id, job_stack.ask)

    def with_id(self, request: HttpRequest, text: str, view: JobView) -> HttpResponse:
        """Call a view of one task."""
        try:
            job_id = job_actions.parse_id(text)
        except ValueError as error:
            return self.redirect_with(request, job_actions.as_sentence(error), self.url_of("job_changelist"))
        return view(self, request, job_id)

    def allowed_changes(self, request: HttpRequest, state: JobState | None) -> list[JobChange]:
        """The actions that the user may do with tasks in this state; with None, in any."""
        return [
            change
            for change in CHANGES.values()
            if (state is None or state in change.states) and self.may(request, change.permission)
        ]


def build_tabs(search: JobSearch, counts: Mapping[JobState, CappedCount]) -> list[Tab]:
    """Return a tab for each state, and one for all."""
    filters = search.without("state").to_query()
    tabs = [Tab("all", urlencode(filters), None, search.state is None)]
    return tabs + [
        Tab(state.value, urlencode({"state": state.value, **filters}), counts.get(state), search.state is state)
        for state in JobState
    ]


def is_costly(search: JobSearch, listing: Listing) -> bool:
    """Whether the list has filters for which the database has no index: its page costs enough without counts.

    The tasks of a worker are found by an index, but then sorted.
    """
    return bool(search.worker or (describe_filters(search) and listing.is_filtered))


def describe_tasks(search: JobSearch, listing: Listing) -> dict[str, Any]:
    """How many tasks of the list are calls of each function."""
    counts = count_tasks(search, listing)
    if counts is None:
        return {}
    return {
        "tasks": [
            TaskLink(path, urlencode(replace(search, task=path).to_query()), size)
            for path, size in counts.tasks[:SHOWN_TASKS]
        ],
        "tasks_more": max(0, len(counts.tasks) - SHOWN_TASKS),
        "tasks_counted": f"{LOOKED_UP:,}" if counts.is_capped else "",
    }
