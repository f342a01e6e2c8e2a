"""`manage.py steady_queue cancel`: cancels tasks by their ids, or all tasks that match a filter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from steady_queue import actions
from steady_queue.actions.cancellation import CANCELLABLE
from steady_queue.events.wording import counted
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.management.confirmation import confirm, find_user, refuse_blank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.core.management.base import OutputWrapper

#: What a task is called that does not exist, beside the values of CancelOutcome.
MISSING = "does not exist"
FILTERS = ("queue", "task", "status")


def cancel(out: OutputWrapper, err: OutputWrapper, options: Mapping[str, Any]) -> int:
    """Cancel what the command line names, write what was done, and return the exit status."""
    ids = options["ids"]
    filters = {name: options[name] for name in FILTERS if options[name] is not None}
    refuse_blank(filters)
    if bool(ids) == bool(filters):
        raise CommandError("cancel takes either ids, or --queue, --task and --status")
    why = {"by": find_user(options), "reason": options["reason"] or ""}
    try:
        if ids:
            return _cancel_ids(out, err, ids, why, as_json=options["json"])
        return _cancel_matching(out, filters, why, options)
    except ValueError as error:
        raise CommandError(str(error)) from error


def _cancel_ids(out: OutputWrapper, err: OutputWrapper, ids: list[str], why: dict[str, str], *, as_json: bool) -> int:
    outcomes: dict[str, str] = {}
    for id_ in ids:
        try:
            outcomes[id_] = str(actions.cancel(id_, **why))
        except TaskResultDoesNotExist:
            outcomes[id_] = MISSING
    if as_json:
        out.write(json.dumps(outcomes))
    else:
        for id_, outcome in outcomes.items():
            (err if outcome == MISSING else out).write(f"{id_}: {outcome}")
    return 1 if MISSING in outcomes.values() else 0


def _cancel_matching(
    out: OutputWrapper, filters: dict[str, str], why: dict[str, str], options: Mapping[str, Any]
) -> int:
    given = [name.strip() for name in filters.get("status", "").split(",") if name.strip()]
    statuses = given or list(CANCELLABLE)
    which = "".join(f", {name} {filters[name]!r}" for name in ("queue", "task") if name in filters)
    confirm(f"Cancel all tasks that are {', '.join(statuses)}{which}?", options, "nothing was cancelled")
    count = actions.cancel_where(*statuses, queue=filters.get("queue"), task=filters.get("task"), **why)
    out.write(json.dumps({"count": count}) if options["json"] else f"{counted(count, 'task')} cancelled")
    return 0
