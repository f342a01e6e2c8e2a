"""Accounts: what is told of what people do to jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.events import JobsDiscarded, JobsRetried, JobsRunNow
from steady_queue.store.operations import actions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steady_queue.events import Event
    from steady_queue.store.operations.actions import ActionResult
    from steady_queue.store.statement import Operation

    Revision = Callable[..., Operation[ActionResult]]

_KINDS: dict[Revision, type[JobsRetried | JobsRunNow]] = {actions.retry: JobsRetried, actions.run_now: JobsRunNow}


def account(revise: Revision, revised: ActionResult) -> Iterator[Event]:
    """The events of a revision; none when it changed nothing."""
    kind = _KINDS.get(revise)
    if kind is not None:
        if revised.ids:
            yield kind(job_ids=revised.ids, count=len(revised.ids))
        return
    for table, ids in revised.discarded_from.items():
        yield JobsDiscarded(job_ids=ids, count=len(ids), status=table.removesuffix("execution"))
