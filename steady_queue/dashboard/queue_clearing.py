"""Clearing a queue: how many tasks are ready, and after a confirmation their deletion, in a request for each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages

from steady_queue.actions.outcomes import OutcomeKind
from steady_queue.dashboard import audit, url_parts
from steady_queue.dashboard.jobs import confirmed_ids
from steady_queue.dashboard.jobs.batches import BatchState
from steady_queue.dashboard.jobs.changes import BATCH_ROWS, JobChange
from steady_queue.events.wording import counted
from steady_queue.models.pages import Queue
from steady_queue.monitoring.jobs.confirmed import find_confirmed, ready_in
from steady_queue.monitoring.states import JobState
from steady_queue.monitoring.text import show_line
from steady_queue.monitoring.times import parse_past_time, parse_time

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from steady_queue.dashboard.page import PageAdmin
    from steady_queue.monitoring.queue_list import QueueRow

#: The change of its tasks.
_CLEAR = JobChange(
    "discard",
    "Clear",
    "clear_queue",
    "deleted",
    "Clearing the queue",
    "The ready tasks of a queue are deleted.",
    frozenset({JobState.READY}),
    is_dangerous=True,
)


def ask(page: PageAdmin, request: HttpRequest, queue: QueueRow) -> HttpResponse:
    """Show how many tasks would be deleted."""
    confirmed, found = find_confirmed(ready_in(queue.name))
    return page.render(
        request,
        "queue_clear.html",
        f"Clear queue {show_line(queue.name)}?",
        queue=queue,
        size=found.total,
        as_of=confirmed.as_of.isoformat(),
        confirmed_ids=None if confirmed.ids is None else confirmed_ids.encode(found.ids),
        reason=audit.written_reason(request),
        queue_url=page.url_of("queue_change", url_parts.encode(queue.name)),
        list_url=page.url_of("queue_changelist"),
    )


def is_confirmed(request: HttpRequest) -> bool:
    """Whether the form says which tasks the user was asked about."""
    as_of = parse_time(request.POST.get("as_of"))
    return as_of is not None or not {"confirmed_ids", "batch"}.isdisjoint(request.POST)


def clear(page: PageAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """Delete the first batch of the tasks that were confirmed, or the next one of an action that has begun."""
    if "batch" in request.POST:
        state = BatchState.load(request.POST["batch"], request.user.pk, _purpose(name))
        problem = "This action cannot be continued. Begin again: tasks that were deleted stay deleted."
    else:
        state, problem = _begin(request, name)
    if state is None:
        return page.redirect_with(request, problem, page.url_of("queue_changelist"))
    return _clear_next(page, request, name, state)


def _begin(request: HttpRequest, name: str) -> tuple[BatchState | None, str]:
    """Return the state at the beginning; or, if the form cannot be read, None and why."""
    try:
        confirmed = confirmed_ids.decode(request.POST.get("confirmed_ids"))
    except ValueError as error:
        return None, f"Nothing was changed: {error}"
    state = BatchState(
        change=_CLEAR.name,
        query={},
        reason=audit.read_reason(request),
        as_of=parse_past_time(request.POST.get("as_of")),
        confirmed=confirmed,
    )
    return state, ""


def _clear_next(page: PageAdmin, request: HttpRequest, name: str, state: BatchState) -> HttpResponse:
    state, done = state.change_next(_CLEAR, ready_in(name), by=request.user.get_username(), size=BATCH_ROWS)
    if done:
        message = f"Cleared: {counted(done, 'ready task')} deleted."
        audit.record(request, Queue, name, name, audit.with_reason(message, state.reason))
    if state.cursor is None:
        return _show_result(page, request, name, state.totals.get(OutcomeKind.DONE.value, 0))
    return page.render(
        request,
        "job_progress.html",
        f"{_CLEAR.gerund} {show_line(name)}: {state.handled:,} tasks until now",
        change=_CLEAR,
        searched=f"{state.searched:,}",
        handled_text=f"{state.handled:,}",
        batch=state.sign(request.user.pk, _purpose(name)),
        action_url=page.url_of("queue_clear", url_parts.encode(name)),
        back_url=page.url_of("queue_change", url_parts.encode(name)),
        **state.describe(),
    )


def _show_result(page: PageAdmin, request: HttpRequest, name: str, done: int) -> HttpResponse:
    url = page.url_of("queue_changelist")
    if not done:
        text = f"Nothing was changed: the queue {show_line(name)} has no ready tasks that were confirmed."
        return page.redirect_with(request, text, url, messages.INFO)
    text = f"{counted(done, 'ready task')} of the queue {show_line(name)} deleted."
    return page.redirect_with(request, text, url, messages.SUCCESS)


def _purpose(name: str) -> str:
    """A state of this purpose is accepted neither for another queue nor by actions on tasks, with their permissions."""
    return f"clear {name}"
