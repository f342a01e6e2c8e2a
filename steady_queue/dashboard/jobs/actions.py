"""Actions on tasks: a page that asks for confirmation, then the change in batches, then what came of it.

All of them are POST requests to one URL. The first names the action and the tasks, by their ids or by the query of a
list, and changes nothing. The second confirms it. If the tasks of a query are more than a batch, the page that follows
sends further requests by itself, or with a button where JavaScript is not available.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import messages
from django.http import QueryDict

from steady_queue.actions.outcomes import OutcomeKind, apply_to
from steady_queue.dashboard import audit
from steady_queue.dashboard.jobs import confirmed_ids
from steady_queue.dashboard.jobs.batches import BatchState
from steady_queue.dashboard.jobs.changes import BATCH_ROWS, CHANGES
from steady_queue.dashboard.jobs.filters import describe_search
from steady_queue.dashboard.refusals import Refused
from steady_queue.events.wording import counted
from steady_queue.models.job import Job
from steady_queue.monitoring.counts import CappedCount
from steady_queue.monitoring.jobs import pages as job_pages
from steady_queue.monitoring.jobs.pages import find_matches
from steady_queue.monitoring.jobs.rows import load_rows
from steady_queue.monitoring.jobs.search import JobSearch
from steady_queue.monitoring.text import show_line
from steady_queue.monitoring.times import parse_time, past_time
from steady_queue.store.ids import parse_uuid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from django.http import HttpRequest, HttpResponse

    from steady_queue.actions.outcomes import ActionOutcome
    from steady_queue.dashboard.jobs.changes import JobChange
    from steady_queue.dashboard.page import PageAdmin

#: Tasks that the page that asks for confirmation shows.
SAMPLE_ROWS = 10


class Wanted(NamedTuple):
    """What a request asks for."""

    change: JobChange
    #: The tasks that were selected; None for all that match the search.
    ids: list[UUID] | None
    search: JobSearch
    #: Whether the request came from the page of the task.
    is_from_job: bool
    reason: str
    #: When the confirmation was asked for: tasks that match later are left alone.
    as_of: datetime
    #: The tasks that were confirmed; None if they were not selected by a search, or too many.
    confirmed: frozenset[UUID] | None
    #: Whether the user has confirmed it, and of all that match, which: their ids, or the time of the question.
    is_confirmed: bool


def act(page: PageAdmin, request: HttpRequest) -> HttpResponse:
    """Ask for confirmation, or change tasks."""
    if "batch" in request.POST:
        return _continue(page, request)
    try:
        wanted = _parse(request)
    except ValueError as error:
        return page.redirect_with(request, as_sentence(error), page.url_of("job_changelist"))
    page.require(request, wanted.change.permission)
    if wanted.ids is not None and not wanted.ids:
        return page.redirect_with(request, "Select tasks first.", _back_url(page, wanted), messages.WARNING)
    if not wanted.is_confirmed:
        return _ask(page, request, wanted)
    try:
        audit.read_reason(request)
    except Refused as refusal:
        return _ask(page, request, wanted, problem=str(refusal))
    if wanted.ids is None:
        return _run_batch(page, request, wanted.change, _new_state(wanted))
    return _change_selected(page, request, wanted, wanted.ids)


# -- what is wanted ---------------------------------------------------------------------------------------------------


def _parse(request: HttpRequest) -> Wanted:
    """Return what the request asks for; raises ValueError.

    `do` is the name of the action, a colon, and "selected", "all" or the id of one task.
    """
    name, _, scope = request.POST.get("do", "").partition(":")
    change = CHANGES.get(name)
    if change is None:
        raise ValueError(f"There is no action {show_line(name, 50)!r}")
    search = JobSearch.from_query(QueryDict(request.POST.get("query", "")))
    if scope == "all" and search.state not in change.states:
        state = f"the state {search.state}" if search.state else "all states at once"
        raise ValueError(f"{change.label} is not possible for tasks in {state}")
    given = request.POST.getlist("ids")[:BATCH_ROWS] if scope == "selected" else [scope]
    ids = None if scope == "all" else [parse_id(id_) for id_ in dict.fromkeys(given)]
    asked_at = parse_time(request.POST.get("as_of"))
    confirmed = confirmed_ids.decode(request.POST.get("confirmed_ids"))
    # Without a bound, "all that match" would be others than those that the user was asked about.
    is_bounded = ids is not None or confirmed is not None or asked_at is not None
    return Wanted(
        change,
        ids,
        search,
        is_from_job="from_job" in request.POST,
        reason=audit.written_reason(request),
        as_of=past_time(asked_at),
        confirmed=confirmed,
        is_confirmed="confirmed" in request.POST and is_bounded,
    )


def as_sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def parse_id(text: str) -> UUID:
    """Return the id of a task; raises ValueError."""
    job_id = parse_uuid(text)
    if job_id is None:
        raise ValueError(f"{show_line(text, 50)!r} is not the id of a task")
    return job_id


def _back_url(page: PageAdmin, wanted: Wanted) -> str:
    """The page from which the request came."""
    if wanted.is_from_job and wanted.ids:
        return page.url_of("job_change", wanted.ids[0])
    return list_url(page, wanted.search.to_query())


def list_url(page: PageAdmin, query: Mapping[str, str]) -> str:
    """The URL of a list, with its filters."""
    return f"{page.url_of('job_changelist')}{f'?{urlencode(query)}' if query else ''}"


# -- confirmation -----------------------------------------------------------------------------------------------------


def _ask(page: PageAdmin, request: HttpRequest, wanted: Wanted, problem: str = "") -> HttpResponse:
    """Show how many tasks would be changed, and some of them."""
    if wanted.ids is None:
        ids, count = find_matches(wanted.search, as_of=wanted.as_of)
    else:
        ids, count = tuple(wanted.ids), CappedCount(len(wanted.ids))
    rows = load_rows(ids[:SAMPLE_ROWS])
    return page.render(
        request,
        "job_confirmation.html",
        f"{wanted.change.label}: are you sure?",
        rows=rows,
        count=count,
        tasks=count.counted("task"),
        searched=f"{job_pages.WINDOW_ROWS:,}",
        is_sample=len(rows) < count.number,
        ids=wanted.ids or (),
        scope="all" if wanted.ids is None else "selected",
        change=wanted.change,
        description=describe_search(wanted.search),
        query=urlencode(wanted.search.to_query()),
        is_from_job=wanted.is_from_job,
        reason=wanted.reason,
        problem=problem,
        as_of=wanted.as_of.isoformat(),
        confirmed_ids=None if wanted.ids is not None or count.is_capped else confirmed_ids.encode(ids),
        back_url=_back_url(page, wanted),
        action_url=page.url_of("job_action"),
    )


# -- changes ----------------------------------------------------------------------------------------------------------


def _change_selected(page: PageAdmin, request: HttpRequest, wanted: Wanted, ids: Sequence[UUID]) -> HttpResponse:
    """Change tasks that were selected, all in this request."""
    change = wanted.change
    labels = {str(row.id): f"{row.task_path} {row.id}" for row in load_rows(ids)}
    outcomes = apply_to(ids, change.name, by=request.user.get_username(), reason=wanted.reason)
    for outcome in outcomes:
        if outcome.is_done:
            label = labels.get(outcome.job_id, outcome.job_id)
            audit.record(request, Job, outcome.job_id, label, audit_text(change, outcome, wanted.reason))
    back_url = _back_url(page, wanted)
    if wanted.is_from_job and change.name == "discard" and outcomes[0].is_done:
        back_url = list_url(page, {})
    if len(outcomes) > 1 and not all(outcome.is_done for outcome in outcomes):
        state = _new_state(wanted).add(outcomes, None)
        return _show_result(page, request, change, state, back_url)
    level = messages.SUCCESS if outcomes[0].is_done else messages.WARNING
    return page.redirect_with(request, _summary(change, outcomes), back_url, level)


def _summary(change: JobChange, outcomes: Sequence[ActionOutcome]) -> str:
    if len(outcomes) == 1:
        return f"The task {outcomes[0].job_id} {outcomes[0].text}."
    requested = sum(outcome.kind is OutcomeKind.REQUESTED for outcome in outcomes)
    counts = {change.participle: len(outcomes) - requested, "asked to stop": requested}
    return " ".join(f"{counted(count, 'task was', 'tasks were')} {what}." for what, count in counts.items() if count)


def _new_state(wanted: Wanted) -> BatchState:
    return BatchState(
        change=wanted.change.name,
        query=wanted.search.to_query(),
        reason=wanted.reason,
        as_of=wanted.as_of,
        confirmed=wanted.confirmed,
    )


def _continue(page: PageAdmin, request: HttpRequest) -> HttpResponse:
    """Change the next batch of an action that has begun."""
    state = BatchState.load(request.POST["batch"], request.user.pk)
    if state is None:
        message = "This action cannot be continued. Begin again: tasks that were changed are left alone."
        return page.redirect_with(request, message, list_url(page, {}))
    change = CHANGES[state.change]
    page.require(request, change.permission)
    return _run_batch(page, request, change, state)


def _run_batch(page: PageAdmin, request: HttpRequest, change: JobChange, state: BatchState) -> HttpResponse:
    """Change the next tasks that match the search."""
    search = JobSearch.from_query(state.query)
    state, done = state.change_next(change, search, by=request.user.get_username(), size=BATCH_ROWS)
    if done:
        tasks = counted(done, "task")
        label = f"{tasks}: {describe_search(search)}"
        audit.record(request, Job, "", label, audit.with_reason(f"{change.label}: {tasks}.", state.reason))
    if state.cursor is None:
        return _show_result(page, request, change, state, list_url(page, state.query))
    return page.render(
        request,
        "job_progress.html",
        f"{change.label}: {state.handled:,} tasks until now",
        change=change,
        searched=f"{state.searched:,}",
        handled_text=f"{state.handled:,}",
        batch=state.sign(request.user.pk),
        action_url=page.url_of("job_action"),
        back_url=list_url(page, state.query),
        **state.describe(),
    )


def _show_result(
    page: PageAdmin, request: HttpRequest, change: JobChange, state: BatchState, back_url: str
) -> HttpResponse:
    rows = [{"outcome": outcome, "url": page.url_of("job_change", outcome.job_id)} for outcome in state.rows]
    context: dict[str, Any] = {"change": change, "rows": rows, "back_url": back_url, "reason": state.reason}
    return page.render(request, "job_result.html", f"{change.label}: result", **context, **state.describe())


def audit_text(change: JobChange, outcome: ActionOutcome, reason: str) -> str:
    """Return what the admin's log says of a change of one task."""
    return audit.with_reason(f"{change.label}: the task {outcome.text}.", reason)
