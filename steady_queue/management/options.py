"""Options of the command line and the environment, which override settings.STEADY_QUEUE in this order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from steady_queue.configuration import Options, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = "STEADY_QUEUE_"
#: The options that apply to every worker.
WORKER_NUMBERS = ("coroutines", "threads", "processes")
NUMBERS = (*WORKER_NUMBERS, "max_tasks", "max_rss", "max_stuck_threads")
BOOLEANS = ("only_work", "skip_recurring", "drain", "async")
QUEUES = ("queues", "exclude_queues")
STRINGS = (*QUEUES, "log_format")
#: The actions that each option belongs to; the others have a meaning for all of them.
OPTIONS_OF_ACTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*NUMBERS, *BOOLEANS, *QUEUES), ("run", "check")),
    "reload": ("run",),
    "stored": ("check",),
    "failed": ("check --stored",),
    "json": ("check --stored", "cancel", "status", "jobs", "queues", "processes"),
    "status": ("cancel",),
    **dict.fromkeys(("queue", "task", "reason"), ("cancel", "jobs")),
    "by": ("cancel", "jobs", "processes"),
    "no_input": ("cancel", "jobs", "queues", "processes"),
    "watch": ("status",),
    **dict.fromkeys(("state", "error", "key", "worker", "since", "before", "text", "limit", "after"), ("jobs",)),
    **dict.fromkeys(("retry", "discard", "run_now", "cancel"), ("jobs",)),
    **dict.fromkeys(("pause", "resume", "clear"), ("queues",)),
    "stop": ("processes",),
    **dict.fromkeys(("rollback", "pdb", "force"), ("run ID",)),
    "max_age": ("health",),
}


@dataclass(frozen=True, slots=True)
class ResolvedOptions:
    """The options to run with, and the problems of the command line and the environment."""

    options: Options
    in_one_loop: bool = False
    drain: bool = False
    #: The queues of the command line or the environment, served or excluded.
    named_queues: Sequence[str] = ()
    problems: Sequence[str] = ()


def find_misplaced(given: Mapping[str, Any], action: str) -> str | None:
    """Return what is wrong with an option of the command line that does not belong to the action."""
    for option, actions in OPTIONS_OF_ACTIONS.items():
        value = given.get(option)
        is_given = value is not None and (value is not False or option in BOOLEANS)
        if is_given and action not in actions and not (option == "stored" and action == "check --stored"):
            names = " or ".join(f"'{name}'" for name in actions)
            return f"--{option.replace('_', '-')} is an option of {names}"
    return None


def resolve(options: Options, given: Mapping[str, Any], environ: Mapping[str, str]) -> ResolvedOptions:
    """The options with the overrides of the command line (`given`, None for omitted options) and the environment."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name in (*NUMBERS, *BOOLEANS, *STRINGS):
        where, value = f"--{name.replace('_', '-')}", given.get(name)
        if value is None:
            where = f"{PREFIX}{name.upper()}"
            value = environ.get(where) or None
        if value is not None:
            values[name] = _parse(name, value, where, problems)
    queues, excluded = values.get("queues") or [], values.get("exclude_queues") or []
    # Options of wrong types cannot be overridden; their problems are reported later.
    is_well_typed = not any(options.type_problems())
    changes = {name: values[name] for name in WORKER_NUMBERS if values.get(name) is not None}
    if excluded:
        changes["exclude_queues"] = excluded
    workers = _override_workers(options, queues, changes) if is_well_typed else options.workers
    for_all = {
        name: values[name]
        for name in ("max_tasks", "max_rss", "max_stuck_threads", "log_format", "only_work", "skip_recurring")
        if values.get(name) is not None
    }
    return ResolvedOptions(
        options=replace(options, workers=workers, **for_all),
        in_one_loop=bool(values.get("async")),
        drain=bool(values.get("drain")),
        named_queues=[*queues, *excluded],
        problems=problems,
    )


def _parse(name: str, value: Any, where: str, problems: list[str]) -> Any:
    if name in NUMBERS:
        try:
            return int(value)
        except (TypeError, ValueError):
            problems.append(f"{where} must be an integer, not {value!r}")
            return None
    if name in BOOLEANS:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word not in _BOOLEANS:
            problems.append(f"{where} must be 1 or 0, not {value!r}")
        return _BOOLEANS.get(word)
    if name in QUEUES:
        names = value if isinstance(value, (list, tuple)) else str(value).split(",")
        found = [queue.strip() for queue in names if queue.strip()]
        if not found:
            problems.append(f"{where} must name at least one queue, not {value!r}")
        return found
    return str(value)


_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _override_workers(options: Options, queues: Sequence[str], changes: Mapping[str, Any]) -> list[Worker]:
    """The configured workers with the overrides; if queues are given, one worker for them, like the first otherwise."""
    workers = list(options.workers)
    if queues:
        # The exclusions of the settings belong to the queues of the settings.
        workers = [replace(workers[0] if workers else Worker(), queues=list(queues), exclude_queues=())]
    return [replace(worker, **changes) for worker in workers]
